// Draw a digit: strokes, the 8 x 8 counts that they become, and what the model says.

import { showBars } from "./bars.js";
import { toCounts } from "./ink.js";
import { model, open, prepare, run, softmax } from "./model.js";

const STEP = 0.04; // of the side, that an arrow key moves the pen
const WIDTH = 0.07; // of the side, of the line that is shown

const byId = (id) => document.getElementById(id);
const board = byId("draw");
const pen = board.getContext("2d");
const file = Object.keys(model.files)[0];
const strokes = [];
let cursor = null; // of the keyboard: {x, y, down}
let ready = null;
let busy = false;
let stale = false;

const say = (text) => { byId("status").textContent = text; };
const inked = () => strokes.some((stroke) => stroke.length > 0);

function drawBoard() {
  const side = board.width;
  const style = getComputedStyle(board);
  pen.clearRect(0, 0, side, side);
  Object.assign(pen, { lineCap: "round", lineJoin: "round", lineWidth: WIDTH * side });
  pen.strokeStyle = style.color;
  for (const stroke of strokes) {
    pen.beginPath();
    for (const [x, y] of [stroke[0], ...stroke]) pen.lineTo(x * side, y * side);
    pen.stroke();
  }
  if (cursor === null && !inked()) {
    Object.assign(pen, { textAlign: "center", fillStyle: style.caretColor });
    pen.font = `${0.05 * side}px ${style.fontFamily}`;
    pen.fillText("Draw a digit here", side / 2, side / 2);
  }
  if (cursor !== null) {
    pen.beginPath();
    pen.arc(cursor.x * side, cursor.y * side, (cursor.down ? 0.5 : 0.7) * WIDTH * side, 0, 7);
    pen.lineWidth = 0.008 * side;
    pen.strokeStyle = style.accentColor;
    pen.stroke();
  }
}

function drawSeen(counts) {
  const small = byId("seen").getContext("2d");
  const picture = small.createImageData(8, 8);
  counts.forEach((count, place) => {
    const grey = Math.round((count * 255) / 16);
    picture.data.set([grey, grey, grey, 255], 4 * place);
  });
  small.putImageData(picture, 0, 0);
}

function show(shares) {
  showBars(byId("bars"), shares.map((share, digit) => ({ label: String(digit), share })));
}

async function recognise() {
  stale = true;
  if (busy) return;
  busy = true;
  try {
    ready ??= open(file, () => {});
    if (inked()) say("Fetching the model …");
    await ready;
    while (stale) {
      stale = false;
      const counts = toCounts(strokes);
      drawSeen(counts);
      if (!inked()) break;
      const grey = Uint8Array.from(counts, (count) => Math.round((count * 255) / 16));
      const rgb = Uint8Array.from({ length: 192 }, (_, place) => grey[Math.floor(place / 3)]);
      const { outputs, ms } = await run(file, prepare(rgb, 8, 8));
      if (!inked()) break;
      const shares = softmax(outputs.logits.data);
      show(shares);
      const best = shares.indexOf(Math.max(...shares));
      say(`It says ${best}, and took ${ms.toFixed(1)} ms.`);
    }
  } catch (error) {
    ready = null;
    say(`It cannot be run here: ${error.message}.`);
  }
  busy = false;
}

function changed() {
  drawBoard();
  if (inked()) {
    recognise();
    return;
  }
  drawSeen(toCounts([]));
  show(new Array(model.classes).fill(null));
  say("Draw a digit.");
}

const point = (event) => {
  const { left, top, width, height } = board.getBoundingClientRect();
  return [(event.clientX - left) / width, (event.clientY - top) / height];
};

board.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  board.setPointerCapture(event.pointerId);
  cursor = null;
  strokes.push([point(event)]);
  changed();
});
board.addEventListener("pointermove", (event) => {
  if (!board.hasPointerCapture(event.pointerId)) return;
  strokes.at(-1).push(...(event.getCoalescedEvents?.() ?? [event]).map(point), point(event));
  changed();
});

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function moveTo(arrow) {
  cursor ??= { x: 0.5, y: 0.5, down: false };
  const clamp = (value) => Math.min(1, Math.max(0, value));
  cursor.x = clamp(cursor.x + STEP * arrow[0]);
  cursor.y = clamp(cursor.y + STEP * arrow[1]);
  if (cursor.down) strokes.at(-1).push([cursor.x, cursor.y]);
}

board.addEventListener("keydown", (event) => {
  if (event.key in ARROWS) {
    moveTo(ARROWS[event.key]);
  } else if (event.key === " ") {
    cursor ??= { x: 0.5, y: 0.5, down: false };
    cursor.down = !cursor.down;
    if (cursor.down) strokes.push([[cursor.x, cursor.y]]);
  } else {
    return;
  }
  event.preventDefault();
  const { down } = cursor;
  changed();
  if (!inked()) say(`The pen is ${down ? "down" : "up"}.`);
});
board.addEventListener("blur", () => {
  cursor = null;
  drawBoard();
});

byId("clear").addEventListener("click", () => {
  strokes.length = 0;
  changed();
});
byId("undo").addEventListener("click", () => {
  strokes.pop();
  changed();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawBoard);

const first = byId("status").textContent;
byId("demo").hidden = false;
changed();
say(first);
