// A board to draw a digit on with a finger, a mouse or the keyboard.

import { byId, model, say } from "./model.js";

const STEP = 0.04; // of the side, that an arrow key moves the pen
const WIDTH = 0.07; // of the side, of the line that is shown
const PEN = 5 / 32; // of the side, of a line in the data set, whose digits fill a square
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const board = byId("draw");
const pen = board.getContext("2d");
const strokes = []; // lists of points [x, y], shares of the sides
let cursor = null; // of the keyboard: {x, y, down}
let tell = () => {}; // hears that the strokes have changed

export const inked = () => strokes.some((stroke) => stroke.length > 0);

/** Draw lines on a canvas. `place` maps their points to the canvas. */
function ink(pen, width, colour, place) {
  Object.assign(pen, { lineCap: "round", lineJoin: "round", lineWidth: width, strokeStyle: colour });
  for (const stroke of strokes) {
    pen.beginPath();
    for (const point of [stroke[0], ...stroke]) pen.lineTo(...place(point));
    pen.stroke();
  }
}

/** Return the drawing in the form of the data set: white on black, scaled to the height or the width
 * of the picture. The grey value of a pixel is the share of it that is drawn on. */
export function digit() {
  const [height, width] = model.size;
  const seen = Object.assign(document.createElement("canvas"), { height, width });
  const pen = seen.getContext("2d", { willReadFrequently: true });
  pen.fillRect(0, 0, width, height);
  const [xs, ys] = [0, 1].map((axis) => strokes.flat().map((point) => point[axis]));
  const box = [xs, ys].map((all) => [Math.min(...all), Math.max(...all)]);
  const scale = (1 - PEN) / Math.max(...box.map(([low, high]) => high - low), 1e-6);
  ink(pen, PEN * width, "white", (point) => point.map((value, axis) =>
    (0.5 + scale * (value - (box[axis][0] + box[axis][1]) / 2)) * width));
  return { seen, full: () => seen, shown: model.size };
}

function draw() {
  const side = board.width;
  const style = getComputedStyle(board);
  pen.clearRect(0, 0, side, side);
  ink(pen, WIDTH * side, style.color, ([x, y]) => [x * side, y * side]);
  if (cursor === null && !inked()) {
    Object.assign(pen, { textAlign: "center", fillStyle: style.caretColor });
    pen.font = `${0.05 * side}px ${style.fontFamily}`;
    pen.fillText("Draw a digit here", side / 2, side / 2);
  }
  if (cursor !== null) {
    pen.beginPath();
    pen.arc(cursor.x * side, cursor.y * side, (cursor.down ? 0.5 : 0.7) * WIDTH * side, 0, 7);
    Object.assign(pen, { lineWidth: 0.008 * side, strokeStyle: style.accentColor });
    pen.stroke();
  }
}

function change(act = () => {}) {
  act();
  draw();
  tell();
}

/** Clear the board without calling the listener. */
export function clear() {
  strokes.length = 0;
  draw();
}

/** Start the board. `told` is called after every change. */
export function listen(told) {
  tell = told;
  change();
}

const point = (event) => {
  const { left, top, width, height } = board.getBoundingClientRect();
  return [(event.clientX - left) / width, (event.clientY - top) / height];
};

board.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  board.setPointerCapture(event.pointerId);
  cursor = null;
  change(() => strokes.push([point(event)]));
});
board.addEventListener("pointermove", (event) => {
  if (!board.hasPointerCapture(event.pointerId)) return;
  const passed = event.getCoalescedEvents?.() ?? [event];
  change(() => strokes.at(-1).push(...passed.map(point), point(event)));
});
board.addEventListener("keydown", (event) => {
  const arrow = ARROWS[event.key];
  if (!arrow && event.key !== " ") return;
  event.preventDefault();
  cursor ??= { x: 0.5, y: 0.5, down: false };
  const at = (value) => Math.min(1, Math.max(0, value));
  if (arrow) {
    cursor.x = at(cursor.x + STEP * arrow[0]);
    cursor.y = at(cursor.y + STEP * arrow[1]);
    if (cursor.down) strokes.at(-1).push([cursor.x, cursor.y]);
  } else {
    cursor.down = !cursor.down;
    if (cursor.down) strokes.push([[cursor.x, cursor.y]]);
  }
  change();
  if (!inked()) say(`The pen is ${cursor.down ? "down" : "up"}.`);
});
board.addEventListener("blur", () => {
  cursor = null;
  draw();
});
byId("clear").addEventListener("click", () => change(() => { strokes.length = 0; }));
byId("undo").addEventListener("click", () => change(() => strokes.pop()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
