// Show which digit is drawn.

import { showBars } from "./bars.js";
import { digit, inked, listen } from "./board.js";
import { answer, byId, latest, model, run, say } from "./model.js";
import { showSeen } from "./picture.js";

const [file] = Object.keys(model.files);
const first = byId("status").textContent;
const digits = Array.from({ length: model.classes }, (_, label) => String(label));

const recognise = latest(async (isLatest) => {
  const picture = digit();
  showSeen(picture);
  if (!inked()) {
    showBars(digits.map((label) => ({ label, share: null })));
    say("Draw a digit.");
    return;
  }
  if (byId("status").textContent === first) say("Fetching the model …");
  const result = await run(file, picture);
  const found = await answer("ImageClassificationPipeline", result, picture, { top_k: model.classes });
  if (!isLatest()) return;
  const shares = new Map(found.map(({ label, score }) => [label, score]));
  showBars(digits.map((label) => ({ label, share: shares.get(label) })));
  say(`It says ${found[0].label}, and took ${result.ms.toFixed(1)} ms.`);
});

byId("demo").hidden = false;
listen(recognise);
say(first);
