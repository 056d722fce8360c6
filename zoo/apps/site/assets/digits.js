// Draw a digit: strokes, the 8 x 8 counts that they become, and what the model says.

import { showBars } from "./bars.js";
import { inked, listen, strokes } from "./board.js";
import { toCounts, toRgb } from "./ink.js";
import { model, open, prepare, run, softmax } from "./model.js";

const byId = (id) => document.getElementById(id);
const file = Object.keys(model.files)[0];
let ready = null;
let busy = false;
let stale = false;

const say = (text) => { byId("status").textContent = text; };

function drawSeen(counts) {
  const small = byId("seen").getContext("2d");
  const picture = small.createImageData(8, 8);
  const rgb = toRgb(counts);
  for (let place = 0; place < 64; place += 1) {
    picture.data.set([...rgb.slice(3 * place, 3 * place + 3), 255], 4 * place);
  }
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
      const { outputs, ms } = await run(file, prepare(toRgb(counts), 8, 8));
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
  if (inked()) {
    recognise();
    return;
  }
  drawSeen(toCounts([]));
  show(new Array(model.classes).fill(null));
  say("Draw a digit.");
}

const first = byId("status").textContent;
byId("demo").hidden = false;
listen(changed);
say(first);
