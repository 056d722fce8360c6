// Draw a visitor's picture at the size of the network's input.

import { byId, model } from "./model.js";

function drawn(height, width, draw) {
  const canvas = Object.assign(document.createElement("canvas"), { height, width });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.imageSmoothingQuality = "high";
  draw(pen);
  return canvas;
}

/** Draw a picture on a white background, which is visible where the picture is transparent. */
function put(pen, bitmap, left, top, width, height) {
  pen.fillStyle = "white";
  pen.fillRect(left, top, width, height);
  pen.drawImage(bitmap, left, top, width, height);
}

/** Return `seen`, a canvas of `model.size`; `shown`, the [height, width] of the picture on it without
 * the padding; and `full()`, a canvas of the picture's own size. */
export async function read(file) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" }).catch(() => {
    throw new Error("the browser cannot read this file as a picture");
  });
  const { size, fit: { aspect, margin, even } } = model;
  const sides = [bitmap.height, bitmap.width];
  const scales = size.map((side, axis) => side / sides[axis]);
  const scale = (aspect === "inside" ? Math.min : Math.max)(...scales);
  const [tall, wide] = sides.map((side, axis) => Math.max(1, Math.round(
    side * margin[axis] * (aspect === "stretched" ? scales[axis] : scale))));
  const [top, left] = aspect === "inside" ? [0, 0] : [tall, wide].map((side, axis) => {
    const half = Math.floor((side - size[axis]) / 2);
    return -(even && (side - size[axis]) % 2 ? half + half % 2 : half);
  });
  const seen = drawn(...size, (pen) => {
    pen.fillRect(0, 0, size[1], size[0]);
    put(pen, bitmap, left, top, wide, tall);
  });
  const full = () => drawn(...sides, (pen) => put(pen, bitmap, 0, 0, sides[1], sides[0]));
  return { seen, full, shown: aspect === "inside" ? [tall, wide] : size };
}

/** Show a picture as the network receives it. */
export function showSeen({ seen }) {
  const { height, width } = seen;
  Object.assign(byId("seen"), { height, width }).getContext("2d").drawImage(seen, 0, 0);
}

/** Call `give` with the file of every picture that is chosen or dropped, and of the photograph. */
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
