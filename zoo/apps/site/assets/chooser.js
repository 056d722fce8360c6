// How a visitor gives a picture: a file that is chosen or dropped, or the page's own photograph.

import { model } from "./model.js";

const byId = (id) => document.getElementById(id);

/** Hand every picture that is given, as a file, to `give`. */
export function listenForPictures(give) {
  const drop = byId("drop");
  drop?.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop?.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop?.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) give(file);
  });
  byId("file").addEventListener("change", ({ target }) => {
    if (target.files.length) give(target.files[0]);
    target.value = "";
  });
  byId("photograph")?.addEventListener("click", async () => {
    give(await (await fetch(`${model.folder}/${model.photograph}`)).blob());
  });
}
