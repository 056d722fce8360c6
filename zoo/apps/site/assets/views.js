// Views of a network's outputs. Each view has `panels`, which `draw` fills, words about them, and
// `at`, which describes the output of one file at a patch. `answers` has the answers of one or two
// files. The others are compared with the first one.

import { areasOf, boxesOf, segmentColours } from "./areas.js";
import { colours, cosine, limits, patches, principal, ramp, scores } from "./features.js";
import { make } from "./maps.js";
import { answer, byId, model } from "./model.js";

const LINE = 160; // a line of a box is one pixel for so many of the picture's shorter side

const className = (config, label) =>
  (label === undefined ? "nothing" : config.id2label?.[label] ?? `class ${label}`);

/** Return the answer of one file: `{view, name, config, values, ms, …}`. `values` are compared. */
export async function read(result, picture) {
  const { outputs } = result;
  if (outputs.pred_boxes) {
    return { ...result, view: boxes, values: outputs.pred_boxes.data, found: await boxesOf(outputs) };
  }
  const found = await areasOf(outputs, picture.shown);
  if (found) {
    return { ...result, view: areas, values: (outputs.masks_queries_logits ?? outputs.logits).data, found };
  }
  if (outputs.predicted_depth) {
    const { predicted_depth: depth } = await answer("DepthEstimationPipeline", result, picture);
    return { ...result, view: depths, values: depth.data };
  }
  const tokens = await answer("ImageFeatureExtractionPipeline", result, picture);
  const classes = outputs.logits && await answer("ImageClassificationPipeline", result, picture);
  const [rows, columns] = grid();
  return { ...result, view: features, values: tokens.data, rows: patches(tokens, rows * columns), classes };
}

/** Return the number of rows and columns of patches. */
export const grid = () => model.size.map((side) => Math.floor(side / model.stride));

/** Return a panel for each file: `[name, caption, size]`. */
const panels = (answers, name, caption, size) =>
  answers.map((each) => [`${name} ${each.name}`, `${each.name}: ${caption}`, size]);

/** Return the pixel in the middle of a patch. */
const middle = (place) => place.map((each) => Math.floor((each + 0.5) * model.stride));

/** Fill a panel with numbers as colours, and show the smallest and the largest number. */
function shade(maps, name, values, between = limits(values)) {
  maps.paint(name, ramp(values, between));
  maps.scale(name, between);
}

/** Show the meaning of the colours, and the scores of the first file. */
function showLegend([{ config }], segments) {
  const items = segmentColours(segments).map((colour, number) => {
    const { label, score } = segments[number];
    const swatch = make("span", { className: "swatch" });
    swatch.style.background = `rgb(${colour})`;
    const words = make("span", { className: "label" }, className(config, label));
    const share = make("span", { className: "share" }, `${(100 * score).toFixed(1)} %`);
    return make("li", {}, swatch, words, share);
  });
  byId("areas").replaceChildren(...items);
  byId("areas").hidden = byId("areas-title").hidden = false;
}

const depths = {
  panels: (answers) => panels(answers, "depth", "depth", model.size),
  draw(maps, answers) {
    for (const { name, values } of answers) shade(maps, `depth ${name}`, Array.from(values));
  },
  words: "Depths go from dark, the least, to bright, the greatest; their limits stand below.",
  asked: "Depth there",
  at({ values }, place) {
    const [y, x] = middle(place);
    return values[y * model.size[1] + x].toPrecision(3);
  },
};

/** Return the number of the segment at a pixel of the input. The areas may cover a part of it. */
const segmentAt = ({ areas: numbers, size: [height, width] }, y, x) =>
  (y < height && x < width ? numbers[y * width + x] : -1);

const areas = {
  panels: (answers) => panels(answers, "areas", "areas", model.size),
  draw(maps, answers) {
    for (const { name, found } of answers) {
      const shades = segmentColours(found.segments);
      const [height, width] = model.size;
      maps.paint(`areas ${name}`, Array.from({ length: height * width }, (_, place) =>
        shades[segmentAt(found, Math.floor(place / width), place % width)] ?? [0, 0, 0]));
    }
    showLegend(answers, answers[0].found.segments);
  },
  words: "Each area has a colour; below stands what it is.",
  asked: "There",
  at: ({ found, config }, place) =>
    className(config, found.segments[segmentAt(found, ...middle(place))]?.label),
};

/** Return the boxes of a file whose score is above the visitor's threshold. */
const sure = ({ found }) => found.filter(({ score }) => score > byId("threshold").value / 100);

const boxes = {
  panels: (answers) => panels(answers, "boxes", "boxes", model.size),
  draw(maps, answers, { seen }) {
    byId("least").hidden = false;
    byId("share").textContent = `${byId("threshold").value} %`;
    byId("areas-title").textContent = "What is in the boxes, and how sure the first file is of it";
    const [height, width] = model.size;
    for (const each of answers) {
      const shown = sure(each);
      const shades = segmentColours(shown);
      const pen = maps.pen(`boxes ${each.name}`);
      pen.drawImage(seen, 0, 0);
      const line = Math.max(1, Math.round(Math.min(height, width) / LINE));
      pen.lineWidth = line;
      for (const [number, { corners }] of [...shown.entries()].reverse()) {
        const [left, top, right, bottom] = corners.map((edge, i) =>
          Math.round(edge * (i % 2 ? height : width)) + (i < 2 ? line : -line) / 2);
        pen.strokeStyle = `rgb(${shades[number]})`;
        pen.strokeRect(left, top, right - left, bottom - top);
      }
    }
    showLegend(answers, sure(answers[0]));
  },
  words: "Each thing has a box; below stands what it is.",
  asked: "There",
  at(each, place) {
    const [y, x] = place.map((side, axis) => (side + 0.5) / grid()[axis]);
    const there = sure(each).filter(({ corners: [left, top, right, bottom] }) =>
      left <= x && x < right && top <= y && y < bottom);
    return there.map(({ label }) => className(each.config, label)).join(" and ") || "nothing";
  },
};

const features = {
  panels(answers) {
    const [first, second] = answers;
    const apart = `How far apart ${first.name} and ${second?.name} are`;
    return [
      ...panels(answers, "pca", "principal components", grid()),
      ...(second ? [["apart", apart, grid()]] : []),
      ...panels(answers, "like", "likeness to the patch", grid()),
    ];
  },
  draw(maps, answers) {
    const [{ rows }, second] = answers;
    // Use the components of the first file, so that equal features have equal colours in all files.
    const basis = principal(rows);
    const table = scores(rows, basis);
    for (const each of answers) maps.paint(`pca ${each.name}`, colours(scores(each.rows, basis), table));
    if (!second) return;
    const gaps = rows.map((row, patch) => 1 - cosine(row, second.rows[patch]));
    shade(maps, "apart", gaps, [0, Math.max(...gaps)]);
  },
  words: "Principal components: what has one colour is alike for the model; red, green and blue " +
    "are the three directions in which patches differ most. Likeness is the cosine with the chosen " +
    "patch, and files are 1 − cosine apart, patch by patch.",
  choose(maps, answers, [row, column]) {
    const [, columns] = grid();
    const chosen = row * columns + column;
    const near = answers.map(({ name, rows }) => {
      const values = rows.map((each) => cosine(each, rows[chosen]));
      shade(maps, `like ${name}`, values);
      return values;
    })[0];
    const others = near.map((value, patch) => (patch === chosen ? -Infinity : value));
    const best = others.indexOf(Math.max(...others));
    return `Most like it: row ${Math.floor(best / columns) + 1}, column ${best % columns + 1}, ` +
      `cosine ${others[best].toFixed(3)}; least ${Math.min(...near).toFixed(3)}.`;
  },
};
