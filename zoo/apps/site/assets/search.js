// Search a dataset for pictures that are similar to a visitor's picture, a text or one of its rows.

import { make } from "./maps.js";
import { byId, model, open, run, say, tokenizer } from "./model.js";
import { listenForPictures, read } from "./picture.js";

const SHOWN = 24;

const { search } = model;

let rows = null; // {keys, thumbnails}
let vectors = null; // a promise of all of them
let order = []; // the rows, best first
let scores = null; // their cosines by row, or null where nothing was asked
let about = ""; // what was asked
let shown = SHOWN;
let turn = 0; // counts what was asked

async function fetched(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} is not there (${response.status})`);
  return response;
}

function allVectors() {
  vectors ??= fetched(search.vectors).then((found) => found.arrayBuffer())
    .then((bytes) => Float32Array.from(new Float16Array(bytes)));
  vectors.catch(() => { vectors = null; });
  return vectors;
}

/** Return a key with possible line breaks after punctuation, so that words are not broken. */
function breaking(text) {
  return text.split(/(?<=[^\p{L}\p{N}\s])/u).flatMap((part) => [part, document.createElement("wbr")]);
}

function item(row) {
  const key = rows.keys[row];
  const label = [...breaking(key), scores ? `, ${scores[row].toFixed(3)}` : ""];
  const button = make("button", { type: "button", title: `More like ${key}` });
  if (rows.thumbnails[row]) {
    button.append(make("img", { src: `${search.thumbnails}/${row}.jpg`, alt: "", loading: "lazy" }));
  }
  button.append(make("span", { className: "label" }, ...label));
  button.addEventListener("click", () => moreLike(row));
  return make("li", {}, button);
}

function show() {
  const words = byId("words").value.toLowerCase();
  const kept = words ? order.filter((row) => rows.keys[row].toLowerCase().includes(words)) : order;
  byId("found").replaceChildren(...kept.slice(0, shown).map(item));
  byId("more").hidden = kept.length <= shown;
  byId("none").hidden = kept.length > 0;
  byId("none").firstElementChild.textContent = `No key of these ${order.length} pictures has “${words}” in it.`;
  say(`${about}${words ? `${kept.length} of ${order.length} rows.` : `${order.length} rows.`}`);
}

/** Return the cosine of a vector with each of many vectors of length 1, stored one after another. */
function cosines(vector, many) {
  const length = Math.hypot(...vector) || 1;
  return Float32Array.from({ length: many.length / vector.length }, (_, row) =>
    vector.reduce((sum, value, i) => sum + value * many[row * vector.length + i], 0) / length);
}

/** Rank all rows by their similarity to the vector of a promise. A later search replaces this one. */
async function ask(words, promised) {
  const mine = (turn += 1);
  try {
    const vector = await promised();
    const many = await allVectors();
    if (mine !== turn) return;
    scores = cosines(vector, many);
    order = rows.keys.map((_, row) => row).sort((one, other) => scores[other] - scores[one]);
    about = words;
    shown = SHOWN;
    show();
  } catch (error) {
    if (mine !== turn) return;
    if (byId("progress")) byId("progress").hidden = true;
    say(`It does not work: ${error.message}.`);
  }
}

function moreLike(row) {
  const { dim } = search;
  ask(`Like ${rows.keys[row]}: `, async () =>
    (await allVectors()).subarray(row * dim, (row + 1) * dim));
}

/** Load a file before it is needed. */
async function loaded(file) {
  say("Fetching the model …");
  const bar = byId("progress");
  Object.assign(bar, { max: model.files[file].bytes, value: 0, hidden: false });
  const network = await open(file, (bytes) => { bar.value = bytes; });
  bar.hidden = true;
  return network;
}

const give = (chosen) => ask("Like your picture: ", async () => {
  const picture = await read(chosen);
  await loaded(search.pictures);
  return (await run(search.pictures, picture)).outputs.pooler_output.data;
});

async function textVector(text) {
  const network = await loaded(search.texts);
  const words = await tokenizer();
  return (await network(words([text]))).pooler_output.data;
}

function inWords(event) {
  event.preventDefault();
  const text = byId("text").value.trim();
  if (text) ask(`“${text}”: `, () => textVector(text));
}

byId("demo").hidden = false;
if (search.pictures) listenForPictures(give);
if (search.texts) byId("in-words").addEventListener("submit", inWords);
byId("words").addEventListener("input", () => {
  shown = SHOWN;
  if (rows) show();
});
byId("all").addEventListener("click", () => {
  byId("words").value = "";
  shown = SHOWN;
  show();
});
byId("more").addEventListener("click", () => {
  shown += SHOWN;
  show();
});
try {
  rows = await (await fetched(search.keys)).json();
  order = rows.keys.map((_, row) => row);
  show();
} catch (error) {
  say(`It does not work: ${error.message}.`);
}
