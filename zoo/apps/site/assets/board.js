// A board to draw on with a finger, a mouse or the keyboard: its strokes are lists of points
// [x, y], shares of its sides.

const STEP = 0.04; // of the side, that an arrow key moves the pen
const WIDTH = 0.07; // of the side, of the line that is shown
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const byId = (id) => document.getElementById(id);
const board = byId("draw");
const pen = board.getContext("2d");
let cursor = null; // of the keyboard: {x, y, down}
let tell = () => {}; // hears that the strokes have changed

export const strokes = [];
export const inked = () => strokes.some((stroke) => stroke.length > 0);
const say = (text) => { byId("status").textContent = text; };

function draw() {
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

function changed() {
  draw();
  tell();
}

/** Take the board away: nothing is drawn. */
export function clear() {
  strokes.length = 0;
  draw();
}

/** Begin; `told` hears of every change of the strokes. */
export function listen(told) {
  tell = told;
  changed();
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
  draw();
});

byId("clear").addEventListener("click", () => {
  strokes.length = 0;
  changed();
});
byId("undo").addEventListener("click", () => {
  strokes.pop();
  changed();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
