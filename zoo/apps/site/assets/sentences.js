// Sentences about a picture, or about a digit that is drawn: how likely each is.

import { showBars } from "./bars.js";
import { listenForPictures } from "./chooser.js";
import { decode } from "./decode.js";
import { toCounts, toRgb } from "./ink.js";
import { model, open, prepare, run, softmax } from "./model.js";
import { encoded } from "./tokens.js";

const byId = (id) => document.getElementById(id);
const say = (text) => { byId("status").textContent = text; };
const file = Object.keys(model.files)[0];
const first = byId("status").textContent;
const fields = [...document.querySelectorAll("#sentences input")];
// Models of digits alone have one.
const board = byId("draw") && (await import("./board.js"));

let picture = null; // {rgb, height, width}, or null where nothing is drawn or chosen
let busy = false;
let stale = false;

/** The picture as the network gets it, in its own size. */
function drawSeen({ data, dims: [, , height, width] }) {
  const { mean, std } = model.preprocessing;
  const seen = Object.assign(byId("seen"), { width, height });
  const pen = seen.getContext("2d");
  const shown = pen.createImageData(width, height);
  for (let place = 0; place < height * width; place += 1) {
    const rgb = mean.map((shift, plane) =>
      Math.round(255 * (data[plane * height * width + place] * std[plane] + shift)));
    shown.data.set([...rgb, 255], 4 * place);
  }
  pen.putImageData(shown, 0, 0);
}

function show(texts, shares) {
  showBars(byId("bars"), texts.map((label, index) => ({ label, share: shares[index] })));
  [...byId("bars").children].forEach((row, index) => {
    row.lastChild.title = shares[index] ?? "";
  });
}

const sigmoid = (logits) => Array.from(logits, (logit) => 1 / (1 + Math.exp(-logit)));
const probabilities = model.probabilities === "softmax" ? softmax : sigmoid;

async function ask() {
  stale = true;
  if (busy) return;
  busy = true;
  try {
    while (stale) {
      stale = false;
      const texts = fields.map(({ value }) => value);
      if (picture === null) {
        show(texts, texts.map(() => null));
        say(first);
        continue;
      }
      const pixels = prepare(picture.rgb, picture.height, picture.width);
      drawSeen(pixels);
      say("Fetching the model …");
      await open(file, () => {});
      const { outputs, ms } = await run(file, [pixels, ...await encoded(texts)]);
      const shares = probabilities(outputs.logits_per_image.data);
      if (stale) continue;
      show(texts, shares);
      const best = shares.indexOf(Math.max(...shares));
      say(`The likeliest is “${texts[best]}”. It took ${ms.toFixed(1)} ms.`);
    }
  } catch (error) {
    say(`It does not work: ${error.message}.`);
  }
  busy = false;
}

async function give(chosen) {
  try {
    picture = await decode(chosen);
    board?.clear();
    await ask();
  } catch (error) {
    say(`It does not work: ${error.message}.`);
  }
}

function drawn() {
  const rgb = toRgb(toCounts(board.strokes));
  picture = board.inked() ? { rgb, height: 8, width: 8 } : null;
  ask();
}

for (const field of fields) field.addEventListener("input", ask);
listenForPictures(give);
byId("demo").hidden = false;
if (board) board.listen(drawn);
else ask();
