// Show the features, depths, areas or boxes of a visitor's picture, for one or more files.

import { showBars } from "./bars.js";
import { cosine } from "./features.js";
import { Maps, make } from "./maps.js";
import { byId, model, open, run, say } from "./model.js";
import { listenForPictures, read as readPicture } from "./picture.js";
import { grid, read } from "./views.js";

const SLOW = 3000; // milliseconds, above which a run is not repeated
const REPEATS = 5;
const SCATTER = 1.25; // half of the runs take so many times as long as the fastest, or longer
const COARSE = 1; // milliseconds, below which a browser's clock cannot tell

const maps = new Maps(byId("maps"), showPatch);
let answers = []; // by file, as `read` has them; `times` has all runs but the first, which is slower
let picture = null; // the one that is shown
let last = null; // the file that was given last
let turn = 0; // counts the pictures that were given

async function load(names) {
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

async function give(file) {
  const mine = (turn += 1);
  last = file;
  const chosen = [...document.querySelectorAll("#chosen input:checked")].map(({ name }) => name);
  try {
    if (chosen.length === 0) throw new Error("tick at least one file");
    model.size = model.sizes[byId("size")?.value ?? 0];
    say("Reading the picture …");
    const given = await readPicture(file);
    say("Fetching the files …");
    await load(chosen);
    const found = [];
    for (const name of chosen) {
      say(`Running ${name} …`);
      found.push({ ...await read(await run(name, given), given), times: [] });
      if (mine !== turn) return;
    }
    [answers, picture] = [found, given];
    show();
    say("Done.");
    if (byId("results").getBoundingClientRect().top > 0.6 * innerHeight) {
      byId("status").scrollIntoView({ block: "start" });
    }
    await repeat(mine);
  } catch (error) {
    if (mine !== turn) return;
    byId("progress").hidden = true;
    say(`It does not work: ${error.message}.`);
  }
}

/** Run the files again in turns, because the first run of a file is slower. */
async function repeat(mine) {
  if (answers.some(({ ms }) => ms > SLOW)) return;
  for (let round = 1; round < REPEATS; round += 1) {
    for (const each of answers) {
      const { ms } = await run(each.name, picture);
      if (mine !== turn) return;
      each.ms = Math.min(each.ms, ms);
      each.times.push(ms);
    }
  }
  showNumbers();
}

/** Draw everything that does not depend on the chosen patch. */
function show() {
  const [{ view, classes }] = answers;
  byId("results").hidden = false;
  maps.show([["seen", "What the model sees", model.size], ...view.panels(answers)]);
  maps.pen("seen").drawImage(picture.seen, 0, 0);
  view.draw(maps, answers, picture);
  byId("words").textContent = `${view.words} Click a patch in any of the pictures, or move with ` +
    "the arrow keys once the first is chosen.";
  showNumbers();
  byId("classes").hidden = !classes;
  if (classes) {
    showBars(classes.map(({ label, score }) => ({ label, share: score })), byId("classes"));
  }
  maps.choose(grid(), ...grid().map((count) => Math.floor(count / 2)));
}

function showPatch(...place) {
  const [{ view }] = answers;
  const told = view.choose
    ? view.choose(maps, answers, place)
    : `${view.asked}: ${answers.map((each) => `${each.name} ${view.at(each, place)}`).join(", ")}.`;
  byId("patch").textContent = `Chosen: row ${place[0] + 1}, column ${place[1] + 1}. ${told}`;
}

function showNumbers() {
  const [first] = answers;
  const row = (cells, tag) => make("tr", {}, ...cells.map((text, index) =>
    make(index ? tag : "th", { className: index ? "number" : "" }, text)));
  const body = answers.map(({ name, ms, values }) => {
    const most = values.reduce((gap, value, i) => Math.max(gap, Math.abs(value - first.values[i])), 0);
    const compared = values === first.values
      ? ["", ""]
      : [most.toExponential(1), cosine(values, first.values).toFixed(6)];
    return row([name, ms.toFixed(ms < 10 ? 1 : 0), ...compared], "td");
  });
  const runs = 1 + first.times.length;
  const time = runs === 1 ? "Time, ms" : `Fastest of ${runs}, ms`;
  // More than one thread is possible only on pages that are cross-origin isolated.
  const threads = globalThis.crossOriginIsolated ? "several threads" : "one thread";
  byId("numbers").replaceChildren(make("table", {},
    make("caption", {}, `On this machine, ${threads}; compared with ${first.name}`),
    make("thead", {}, row(["File", time, "Largest difference", "Cosine"], "th")),
    make("tbody", {}, ...body)));
  if (answers.some(({ times }) => isDisturbed(times))) {
    byId("numbers").append(make("p", {}, "The runs of a file took unequally long. This machine did " +
      "something else meanwhile, so the times are too long: close other pages, and give the " +
      "picture again."));
  }
  byId("numbers").hidden = false;
}

/** Return whether the times of a file differ so much that another program must have run. */
export function isDisturbed(times) {
  const sorted = [...times].sort((one, other) => one - other);
  return sorted[0] > COARSE && sorted[Math.floor(sorted.length / 2)] > SCATTER * sorted[0];
}

listenForPictures(give);
byId("threshold").addEventListener("input", () => answers[0].view.draw(maps, answers, picture));
byId("size")?.addEventListener("change", () => last && give(last));
byId("demo").hidden = false;
