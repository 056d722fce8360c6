// Give a picture: the model's features, depths, areas or boxes of it as colours, file beside file.

import { areasOf, segmentColours } from "./areas.js";
import { showBars } from "./bars.js";
import { boxesAt, boxesOf, outlined } from "./boxes.js";
import { listenForPictures } from "./chooser.js";
import { decode } from "./decode.js";
import { apart, colours, cosine, limits, patches, principal, ramp, scores } from "./features.js";
import { Maps, make } from "./maps.js";
import { model, open, prepare, run, softmax } from "./model.js";
import { pixelValues, sizeInside } from "./preprocess.js";
import { disturbed } from "./times.js";

const SLOW = 3000; // milliseconds, above which a run is not repeated
const REPEATS = 5;
const BEST = 5;
const NOWHERE = [0, 0, 0];

const byId = (id) => document.getElementById(id);
const say = (text) => { byId("status").textContent = text; };
const maps = new Maps(byId("maps"), showPlace);
let grid = []; // [rows, columns] of patches

// Of the picture that is shown, by file:
// {name, values, rows, depth, logits, found, boxes, ms, times}.
// `ms` is the fastest run, and `times` has all but the first, which is slower.
let results = [];
let turn = 0; // counts the pictures that were given
let names = null; // of the classes, once they have been fetched
let last = null; // the file that was given last
let pixels = []; // of the picture, where boxes are drawn on it

function chooseSize() {
  model.size = model.sizes[byId("size")?.value ?? 0];
  grid = model.size.map((side) => Math.floor(side / model.stride));
}

async function fetchFiles(names) {
  const bar = byId("progress");
  const total = names.reduce((sum, name) => sum + model.files[name].bytes, 0);
  let before = 0;
  Object.assign(bar, { max: total, value: 0, hidden: false });
  for (const name of names) {
    await open(name, (bytes) => { bar.value = before + bytes; });
    before += model.files[name].bytes;
  }
  bar.hidden = true;
}

async function runOne(name, feed, shown) {
  const { outputs, ms } = await run(name, feed);
  const { last_hidden_state: tokens, predicted_depth: depth, logits } = outputs;
  const rows = tokens && patches(tokens, grid[0] * grid[1]);
  const maps = outputs.masks_queries_logits ?? outputs.pred_boxes;
  const values = (tokens ?? depth ?? maps ?? logits).data;
  const found = areasOf(outputs, model.size, shown);
  const boxes = boxesOf(outputs, model.size, shown);
  const told = { depth: depth?.data, logits: logits?.data, found, boxes };
  return { name, values, rows, ...told, ms, times: [] };
}

async function give(file) {
  const mine = (turn += 1);
  last = file;
  const chosen = [...document.querySelectorAll("#chosen input:checked")].map(({ name }) => name);
  try {
    if (chosen.length === 0) throw new Error("tick at least one file");
    chooseSize();
    say("Reading the picture …");
    const picture = await decode(file);
    say("Fetching the files …");
    await fetchFiles(chosen);
    if (model.classes && names === null) names = await classNames();
    const feed = prepare(picture.rgb, picture.height, picture.width);
    const sides = [picture.height, picture.width];
    const shown = model.preprocessing.padded ? sizeInside(sides, model.size) : model.size;
    const found = [];
    for (const name of chosen) {
      say(`Running ${name} …`);
      found.push(await runOne(name, feed, shown));
      if (mine !== turn) return;
    }
    results = found;
    show(picture);
    const { height, width, scaled } = picture;
    say(scaled ? `Done, with the picture scaled to ${width} × ${height} pixels first.` : "Done.");
    if (byId("results").getBoundingClientRect().top > 0.6 * innerHeight) {
      byId("status").scrollIntoView({ block: "start" });
    }
    await repeat(feed, mine);
  } catch (error) {
    if (mine !== turn) return;
    byId("progress").hidden = true;
    say(`It does not work: ${error.message}.`);
  }
}

/** Run again in turns: the first run of a file is slower. */
async function repeat(feed, mine) {
  if (results.some(({ ms }) => ms > SLOW)) return;
  for (let round = 1; round < REPEATS; round += 1) {
    for (const result of results) {
      const { ms } = await run(result.name, feed);
      if (mine !== turn) return;
      result.ms = Math.min(result.ms, ms);
      result.times.push(ms);
    }
  }
  showNumbers();
}

/** Everything that does not depend on the chosen patch. */
function show(picture) {
  byId("results").hidden = false;
  if (results[0].boxes) showBoxes(picture);
  else if (results[0].found) showAreas(picture);
  else if (results[0].depth) showDepths(picture);
  else showFeatures(picture);
  showNumbers();
  showClasses();
  maps.choose(grid, Math.floor(grid[0] / 2), Math.floor(grid[1] / 2));
}

/** What the colours mean, and what can be done with the pictures. */
function explain(text) {
  byId("words").textContent = `${text} Click a patch in any of the pictures, or move with the ` +
    "arrow keys once the first is chosen.";
}

function showDepths(picture) {
  const panels = results.map(({ name }) => [`depth ${name}`, `${name}: depth`, model.size]);
  maps.show([["seen", "What the model sees", model.size], ...panels]);
  maps.paint("seen", seen(picture));
  for (const { name, depth } of results) {
    const values = Array.from(depth);
    const between = limits(values.map((value) => [value]))[0];
    maps.paint(`depth ${name}`, ramp(values, between));
    maps.scale(`depth ${name}`, between);
  }
  explain("Depths go from dark, the least, to bright, the greatest; their limits stand below.");
}

/** Boxes of which a file is surer than the threshold. */
function sure({ boxes }) {
  const least = byId("threshold").value / 100;
  return boxes.filter(({ score }) => score > least);
}

function showBoxes(picture) {
  const panels = results.map(({ name }) => [`boxes ${name}`, `${name}: boxes`, model.size]);
  maps.show([["seen", "What the model sees", model.size], ...panels]);
  pixels = seen(picture);
  maps.paint("seen", pixels);
  byId("least").hidden = false;
  byId("areas-title").textContent = "What is in the boxes, and how sure the first file is of it";
  drawBoxes();
  explain("Each thing has a box; below stands what it is.");
}

function drawBoxes() {
  byId("share").textContent = `${byId("threshold").value} %`;
  for (const result of results) {
    const boxes = sure(result);
    const drawn = outlined(pixels, model.size, boxes, segmentColours(boxes));
    maps.paint(`boxes ${result.name}`, drawn);
  }
  showLegend(sure(results[0]));
}

function showAreas(picture) {
  const panels = results.map(({ name }) => [`areas ${name}`, `${name}: areas`, model.size]);
  maps.show([["seen", "What the model sees", model.size], ...panels]);
  const pixels = seen(picture);
  maps.paint("seen", pixels);
  for (const { name, found } of results) {
    const shades = segmentColours(found.segments);
    const shade = (_, place) => shades[segmentAt(found, place)] ?? NOWHERE;
    maps.paint(`areas ${name}`, pixels.map(shade));
  }
  showLegend(results[0].found.segments);
  explain("Each area has a colour; below stands what it is.");
}

/** What the colours of areas or boxes stand for, and how sure the first file is of it. */
function showLegend(segments) {
  const items = segmentColours(segments).map((colour, number) => {
    const { label, score } = segments[number];
    const swatch = make("span", { className: "swatch" });
    swatch.style.background = `rgb(${colour})`;
    const share = make("span", { className: "share" }, `${(100 * score).toFixed(1)} %`);
    return make("li", {}, swatch, make("span", { className: "label" }, className(label)), share);
  });
  byId("areas").replaceChildren(...items);
  byId("areas").hidden = byId("areas-title").hidden = false;
}

function showFeatures(picture) {
  const [first, second] = results;
  const colour = results.map(({ name }) => [`pca ${name}`, `${name}: principal components`, grid]);
  const gap = second ? [["apart", `How far apart ${first.name} and ${second.name} are`, grid]] : [];
  const like = results.map(({ name }) => [`like ${name}`, `${name}: likeness to the patch`, grid]);
  maps.show([["seen", "What the model sees", model.size], ...colour, ...gap, ...like]);
  maps.paint("seen", seen(picture));
  // The first file's components, so that what is alike in two files has one colour.
  const basis = principal(first.rows);
  const between = limits(scores(first.rows, basis));
  for (const { name, rows } of results) {
    maps.paint(`pca ${name}`, colours(scores(rows, basis), between));
  }
  if (second) {
    const gaps = first.rows.map((row, patch) => 1 - cosine(row, second.rows[patch]));
    const between = [0, Math.max(...gaps)];
    maps.paint("apart", ramp(gaps, between));
    maps.scale("apart", between);
  }
  explain("Principal components: what has one colour is alike for the model; red, green and blue " +
    "are the three directions in which patches differ most. Likeness is the cosine with the chosen " +
    "patch, and files are 1 − cosine apart, patch by patch.");
}

/** The picture as it was resized and cropped: [red, green, blue] by rows. */
function seen({ rgb, height, width }) {
  const { mean, std } = model.preprocessing;
  const values = pixelValues(rgb, height, width, model.preprocessing, model.size);
  const count = model.size[0] * model.size[1];
  return Array.from({ length: count }, (_, place) =>
    mean.map((shift, plane) => 255 * (values[plane * count + place] * std[plane] + shift)));
}

function showPlace(row, column) {
  const [{ depth, found, boxes }] = results;
  if (boxes) return showBoxesAt(row, column);
  if (!depth && !found) return showLikeness(row, column);
  const [y, x] = [row, column].map((place) => Math.floor((place + 0.5) * model.stride));
  const place = y * model.size[1] + x;
  const told = results.map((each) => `${each.name} ${found
    ? className(each.found.segments[segmentAt(each.found, place)]?.label)
    : each.depth[place].toPrecision(3)}`);
  const what = found ? "There" : "Depth there";
  byId("patch").textContent =
    `Chosen: row ${row + 1}, column ${column + 1}. ${what}: ${told.join(", ")}.`;
}

function showBoxesAt(row, column) {
  const share = [row, column].map((place, axis) => (place + 0.5) / grid[axis]);
  const told = results.map((each) => {
    const there = boxesAt(sure(each), share).map(({ label }) => className(label));
    return `${each.name} ${there.join(" and ") || "nothing"}`;
  });
  byId("patch").textContent =
    `Chosen: row ${row + 1}, column ${column + 1}. There: ${told.join(", ")}.`;
}

/** The number of the segment at a place of the model's input, of which areas may be a part. */
function segmentAt({ areas, size: [height, width] }, place) {
  const [y, x] = [Math.floor(place / model.size[1]), place % model.size[1]];
  return y < height && x < width ? areas[y * width + x] : -1;
}

function showLikeness(row, column) {
  const chosen = row * grid[1] + column;
  const found = results.map(({ name, rows }) => {
    const values = rows.map((each) => cosine(each, rows[chosen]));
    const between = limits(values.map((value) => [value]))[0];
    maps.paint(`like ${name}`, ramp(values, between));
    maps.scale(`like ${name}`, between);
    return values;
  });
  const [first] = found;
  const others = first.map((value, patch) => (patch === chosen ? -Infinity : value));
  const best = others.indexOf(Math.max(...others));
  const place = (patch) =>
    `row ${Math.floor(patch / grid[1]) + 1}, column ${(patch % grid[1]) + 1}`;
  byId("patch").textContent =
    `Chosen: ${place(chosen)}. Most like it: ${place(best)}, cosine ${others[best].toFixed(3)}; ` +
    `least ${Math.min(...first).toFixed(3)}.`;
}

function showNumbers() {
  const [first] = results;
  const runs = 1 + first.times.length;
  const row = (cells, tag) => make("tr", {}, ...cells.map((text, index) =>
    make(index ? tag : "th", { className: index ? "number" : "" }, text)));
  const body = results.map((result) => {
    const { name, ms, values } = result;
    const { most, cosine: alike } = apart(values, first.values);
    const compared = result === first ? ["", ""] : [most.toExponential(1), alike.toFixed(6)];
    return row([name, ms.toFixed(ms < 10 ? 1 : 0), ...compared], "td");
  });
  const time = runs === 1 ? "Time, ms" : `Fastest of ${runs}, ms`;
  const heads = ["File", time, "Largest difference", "Cosine"];
  const table = make("table", {},
    make("caption", {}, `On this machine, ${threads()}; compared with ${first.name}`),
    make("thead", {}, row(heads, "th")), make("tbody", {}, ...body));
  byId("numbers").replaceChildren(table);
  if (results.some(({ times }) => disturbed(times))) {
    const told = "The runs of a file took unequally long. This machine did something else " +
      "meanwhile, so the times are too long: close other pages, and give the picture again.";
    byId("numbers").append(make("p", {}, told));
  }
  byId("numbers").hidden = false;
}

/** How many threads the runtime has: more than one only on pages that are isolated. */
function threads() {
  return globalThis.crossOriginIsolated ? "several threads" : "one thread";
}

/** What the classes are called, by number; who builds a folder may know no names. */
async function classNames() {
  const response = await fetch(`${model.folder}/config.json`);
  return (await response.json()).id2label ?? {};
}

function className(number) {
  return number === undefined ? "nothing" : names[number] ?? `class ${number}`;
}

function showClasses() {
  const list = byId("classes");
  const [{ logits, found, boxes }] = results;
  list.hidden = !logits || found !== null || boxes !== null;
  if (list.hidden) return;
  const shares = softmax(logits).map((share, index) => ({ label: className(index), share }));
  showBars(list, shares.sort((one, other) => other.share - one.share).slice(0, BEST));
}

listenForPictures(give);
byId("threshold").addEventListener("input", drawBoxes);
byId("size")?.addEventListener("change", () => last && give(last));
byId("demo").hidden = false;
