// Show how well each of several sentences describes a picture or a drawn digit.

import { showBars } from "./bars.js";
import { byId, latest, model, open, processor, say, tokenizer, transformers } from "./model.js";
import { listenForPictures, read, showSeen } from "./picture.js";

const [file] = Object.keys(model.files);
const first = byId("status").textContent;
const fields = [...document.querySelectorAll("#sentences input")];
// Only the pages of models of digits have a board.
const board = byId("draw") && (await import("./board.js"));

let picture = null; // null where nothing is drawn or chosen
let asking = null; // a promise of the pipeline

async function pipeline() {
  const [{ ZeroShotImageClassificationPipeline }, network, ...parts] = await Promise.all(
    [transformers(), open(file), processor(), tokenizer()]);
  const [prepare, words] = parts;
  return new ZeroShotImageClassificationPipeline(
    { model: network, processor: prepare, tokenizer: words });
}

const ask = latest(async (isLatest) => {
  const texts = fields.map(({ value }) => value);
  if (picture === null) {
    showBars(texts.map((label) => ({ label, share: null })));
    say(first);
    return;
  }
  showSeen(picture);
  if (asking === null) say("Fetching the model …");
  asking ??= pipeline();
  asking.catch(() => { asking = null; });
  const classify = await asking;
  const { RawImage } = await transformers();
  const began = performance.now();
  const found = await classify(
    RawImage.fromCanvas(picture.seen), texts, { hypothesis_template: "{}" });
  const ms = performance.now() - began;
  if (!isLatest()) return;
  const shares = new Map(found.map(({ label, score }) => [label, score]));
  showBars(texts.map((label) => ({ label, share: shares.get(label) })));
  say(`The likeliest is “${found[0].label}”. It took ${ms.toFixed(1)} ms.`);
});

async function give(chosen) {
  try {
    picture = await read(chosen);
    board?.clear();
    await ask();
  } catch (error) {
    say(`It does not work: ${error.message}.`);
  }
}

for (const field of fields) field.addEventListener("input", ask);
listenForPictures(give);
byId("demo").hidden = false;
board?.listen(() => {
  picture = board.inked() ? board.digit() : null;
  ask();
});
if (!board) ask();
