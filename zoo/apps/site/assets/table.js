// Sort and filter the table of models. The choices are stored in the address of the page.

const table = document.getElementById("models");
const groups = [...table.tBodies].map((body) => ({ body, rows: [...body.rows] }));
const form = document.getElementById("filters");
const heads = [...table.tHead.rows[0].cells];
const byId = (id) => document.getElementById(id);
let order = ""; // a field, with a minus before it where the largest is first

/** Return the measured numbers of a field for the visible files of a model. */
function numbers({ body, rows }, field) {
  if (field === "parameters") return [Number(body.dataset.parameters)];
  const texts = rows.filter((row) => !row.hidden)
    .map((row) => row.querySelector(`[data-field=${field}]`).dataset.number);
  return texts.filter(Boolean).map(Number);
}

/** Return the sort key of a model: its name, or the best number of its files; null without numbers. */
function key(group, field, down) {
  if (field === "model") return group.body.dataset.model;
  if (field === "variant") {
    const row = group.rows.find(({ hidden }) => !hidden);
    return row?.querySelector("[data-field=variant]").textContent ?? "";
  }
  const found = numbers(group, field);
  if (found.length === 0) return null;
  return down ? Math.max(...found) : Math.min(...found);
}

function compare(one, other) {
  if (typeof one === "string") return one.localeCompare(other, "en", { numeric: true });
  return one - other;
}

function sort() {
  const down = order.startsWith("-");
  const field = order.replace("-", "") || "model";
  for (const head of heads) {
    if (head.dataset.field !== field || order === "") head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }
  const keyed = groups.map((group) => [key(group, field, down), group.body]);
  // Models without numbers are last in both directions.
  const known = keyed.filter(([found]) => found !== null);
  const unknown = keyed.filter(([found]) => found === null);
  known.sort(([one], [other]) => (down ? -1 : 1) * compare(one, other));
  table.append(...[...known, ...unknown].map(([, body]) => body));
}

/** Show the files of a model that match. The cell that they share is in the row of the first one. */
function showFiles({ body, rows }, fits) {
  const shown = rows.filter(fits);
  for (const row of rows) row.hidden = !shown.includes(row);
  body.hidden = shown.length === 0;
  if (shown.length === 0) return 0;
  const common = body.querySelector("th");
  common.rowSpan = shown.length;
  shown[0].prepend(common);
  return shown.length;
}

function filter() {
  const { text, sort: _, ...exact } = Object.fromEntries(new FormData(form));
  const words = text.toLowerCase().split(/[\s,]+/).filter(Boolean);
  let [models, files, all] = [0, 0, 0];
  for (const group of groups) {
    const about = group.body.querySelector("th").textContent.toLowerCase();
    const shown = showFiles(group, (row) => {
      const file = [...row.querySelectorAll("td")].map((cell) => cell.textContent).join(" ");
      const whole = `${about} ${file} ${row.dataset.precision}`.toLowerCase();
      const told = { ...group.body.dataset, ...row.dataset };
      return words.every((word) => whole.includes(word)) &&
        Object.entries(exact).every(([name, value]) => !value || told[name] === value);
    });
    [models, files, all] = [models + (shown > 0), files + shown, all + group.rows.length];
  }
  const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  byId("count").textContent = files === all
    ? `${many(groups.length, "model")}, ${many(all, "file")}`
    : `${models} of ${many(groups.length, "model")}, ${files} of ${many(all, "file")}`;
  byId("none").hidden = files > 0;
  table.parentElement.hidden = files === 0;
  const asked = Object.entries({ search: text, ...exact }).filter(([, value]) => value);
  byId("asked").textContent =
    `Asked for: ${asked.map(([name, value]) => `${name} ${value}`).join(", ")}.`;
}

/** Apply the form to the table, and store its values in the address, so that it can be shared. */
function update() {
  form.elements.sort.value = order.replace("-", "");
  const asked = [...new FormData(form)].filter(([name, value]) => value && name !== "sort");
  if (order) asked.push(["sort", order]);
  const query = new URLSearchParams(asked).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
  filter();
  sort();
}

heads.forEach((head) => {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  const { field } = head.dataset;
  button.addEventListener("click", () => {
    order = order === field ? `-${field}` : field;
    update();
  });
});

/** Apply the values in the address to the form. Values that are not available are ignored. */
function restore() {
  for (const [name, value] of new URLSearchParams(location.search)) {
    const field = form.elements.namedItem(name);
    if (name === "sort") {
      const known = [...heads.map((head) => head.dataset.field), "parameters"];
      order = known.includes(value.replace("-", "")) ? value : "";
    } else if (field) {
      field.value = value;
      if (field.value !== value) field.value = "";
    }
  }
}

form.addEventListener("input", ({ target }) => {
  if (target.name === "sort") order = target.value;
  update();
});
form.addEventListener("submit", (event) => event.preventDefault());
byId("all").addEventListener("click", () => {
  form.reset();
  order = "";
  update();
  form.elements.text.focus();
});
form.hidden = false;
restore();
update();
