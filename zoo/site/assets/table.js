// Sort and filter the table of models.

const table = document.getElementById("models");
const body = table.tBodies[0];
const rows = [...body.rows];
const form = document.getElementById("filters");
const count = document.getElementById("count");
const heads = [...table.tHead.rows[0].cells];

/** What a row is sorted by: a number, or a text; null where nothing was measured. */
function key(row, column) {
  const { dataset, textContent } = row.cells[column];
  if (dataset.number === undefined) return textContent.toLowerCase();
  return dataset.number === "" ? null : Number(dataset.number);
}

function compare(one, other) {
  if (typeof one === "string") return one.localeCompare(other, "en", { numeric: true });
  return one - other;
}

function sort(column) {
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const keyed = rows.map((row) => [key(row, column), row]);
  // What was not measured is last either way.
  const known = keyed.filter(([found]) => found !== null);
  const unknown = keyed.filter(([found]) => found === null);
  known.sort(([one], [other]) => (down ? -1 : 1) * compare(one, other));
  body.append(...[...known, ...unknown].map(([, row]) => row));
}

heads.forEach((head, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => sort(column));
});

const places = Object.fromEntries(heads.map((head, column) => [head.dataset.field, column]));

function filter() {
  const { text, ...exact } = Object.fromEntries(new FormData(form));
  const words = text.toLowerCase().split(/[\s,]+/).filter(Boolean);
  for (const row of rows) {
    const whole = row.textContent.toLowerCase();
    const fits = words.every((word) => whole.includes(word));
    row.hidden = !fits || Object.entries(exact).some(
      ([name, value]) => value && row.cells[places[name]].textContent !== value);
  }
  const shown = rows.filter((row) => !row.hidden).length;
  count.textContent = shown === rows.length ? `${shown} files` : `${shown} of ${rows.length} files`;
}

form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
