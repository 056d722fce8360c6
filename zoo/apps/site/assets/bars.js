// Show a list of numbers from 0 to 1 as bars with texts.

import { byId } from "./model.js";

/** Show items `{label, share}` in the list `bars` and mark the largest. A share is null until it is
 * known. */
export function showBars(items, list = byId("bars")) {
  const most = Math.max(...items.map(({ share }) => share));
  list.replaceChildren(...items.map(({ label, share }) => {
    const [name, track, number] = ["label", "track", "share"].map((className) =>
      Object.assign(document.createElement("span"), { className }));
    name.textContent = label;
    track.append(document.createElement("span"));
    track.firstChild.style.width = `${100 * share}%`;
    number.textContent = share === null ? "" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
    number.title = share ?? "";
    const row = document.createElement("li");
    row.classList.toggle("first", share !== null && share === most);
    row.append(name, track, number);
    return row;
  }));
}
