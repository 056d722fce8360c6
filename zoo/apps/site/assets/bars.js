// A list of shares from 0 to 1 as bars; each item's text says the same.

/** Show items `{label, share}`; the largest is marked, and a share of null is not known yet. */
export function showBars(list, items) {
  while (list.children.length > items.length) list.lastChild.remove();
  while (list.children.length < items.length) {
    const row = document.createElement("li");
    for (const name of ["label", "track", "share"]) {
      row.append(Object.assign(document.createElement("span"), { className: name }));
    }
    row.children[1].append(document.createElement("span"));
    list.append(row);
  }
  const most = Math.max(...items.map(({ share }) => share));
  items.forEach(({ label, share }, index) => {
    const row = list.children[index];
    const [name, track, number] = row.children;
    name.textContent = label;
    track.firstChild.style.width = `${100 * share}%`;
    number.textContent = share === null ? "" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
    row.classList.toggle("first", share !== null && share === most);
  });
}
