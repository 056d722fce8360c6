// A search box above tables that are too long to be read: rows without the words are hidden.
// A page asks for it with an element of the class "find-in-tables".

for (const place of document.querySelectorAll(".find-in-tables")) {
  const rows = [...document.querySelectorAll("article table tbody tr")];
  const told = document.createElement("span");
  told.setAttribute("role", "status");
  const field = Object.assign(document.createElement("input"), {
    type: "search", placeholder: place.dataset.example, autocomplete: "off",
  });
  Object.assign(field.style, { border: "1px solid", borderRadius: "2px", padding: "0.2em 0.4em", margin: "0 0.5em" });
  const label = document.createElement("label");
  label.append(place.dataset.label, field);
  place.replaceChildren(label, told);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      return !row.hidden;
    });
    told.textContent = words.length ? `${shown.length} of ${rows.length} rows` : "";
  });
}
