// Show several panels with the same patches. A patch can be chosen in any of them.

import { ramp } from "./features.js";

const SHADES = 64;
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));

/** Return an element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function fill(canvas, pixels) {
  const picture = new ImageData(canvas.width, canvas.height);
  pixels.forEach((pixel, place) => picture.data.set([...pixel, 255], 4 * place));
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

export class Maps {
  /** `chosen(row, column)` is called when a patch is chosen. */
  constructor(place, chosen) {
    Object.assign(this, { place, grid: [1, 1], chosen, panels: new Map(), patch: null });
  }

  /** Show panels `[name, caption, [height, width]]`. The first can be used with the keyboard too. */
  show(wanted) {
    this.panels.clear();
    for (const [name, caption, [height, width]] of wanted) {
      const canvas = make("canvas", { height, width });
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", caption);
      const mark = make("span", { className: "mark" });
      const hold = make("div", { className: "hold" }, canvas, mark);
      hold.addEventListener("pointerdown", (event) => this.#point(event, canvas));
      if (this.panels.size === 0) this.#takeKeys(hold);
      const scale = make("div", { className: "scale", hidden: true });
      const figure = make("figure", {}, hold, make("figcaption", {}, caption), scale);
      this.panels.set(name, { canvas, mark, figure, scale });
    }
    this.place.replaceChildren(...[...this.panels.values()].map(({ figure }) => figure));
  }

  /** Return the drawing context of a panel. */
  pen(name) {
    return this.panels.get(name).canvas.getContext("2d");
  }

  /** Fill a panel with colours [red, green, blue], by rows. */
  paint(name, pixels) {
    fill(this.panels.get(name).canvas, pixels);
  }

  /** Show the smallest and the largest number of a panel's colours. */
  scale(name, between) {
    const bar = make("canvas", { width: SHADES, height: 1 });
    bar.setAttribute("aria-hidden", "true");
    fill(bar, ramp(Array(SHADES).keys(), [0, SHADES - 1]));
    const [low, high] = between.map((limit) => make("span", {}, limit.toPrecision(2)));
    const { scale } = this.panels.get(name);
    scale.replaceChildren(low, bar, high);
    scale.hidden = false;
  }

  /** Choose a patch of `grid` [rows, columns]. */
  choose(grid, row, column) {
    this.grid = grid;
    const [rows, columns] = grid;
    this.patch = [clamp(row, rows), clamp(column, columns)];
    for (const { mark: { style } } of this.panels.values()) {
      style.top = `${(100 * this.patch[0]) / rows}%`;
      style.left = `${(100 * this.patch[1]) / columns}%`;
      style.height = `${100 / rows}%`;
      style.width = `${100 / columns}%`;
    }
    this.chosen(...this.patch);
  }

  #point(event, canvas) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const [rows, columns] = this.grid;
    this.choose(
      this.grid,
      Math.floor(((event.clientY - top) / height) * rows),
      Math.floor(((event.clientX - left) / width) * columns),
    );
  }

  #takeKeys(hold) {
    hold.tabIndex = 0;
    hold.setAttribute("role", "application");
    hold.setAttribute("aria-label", "Choose a patch with the arrow keys");
    hold.addEventListener("keydown", (event) => {
      const move = MOVES[event.key];
      if (!move) return;
      event.preventDefault();
      this.choose(this.grid, this.patch[0] + move[0], this.patch[1] + move[1]);
    });
  }
}
