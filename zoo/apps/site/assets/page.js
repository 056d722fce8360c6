// Buttons that copy code, and the manifest, which is loaded when it is opened.

for (const button of document.querySelectorAll("button.copy")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  const language = button.previousElementSibling.textContent;
  button.setAttribute("aria-label", `Copy the code in ${language}`);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.closest("figure").querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

const all = document.getElementById("all");
all.hidden = false;
all.addEventListener("toggle", async () => {
  const response = await fetch(all.dataset.address);
  all.querySelector("code").textContent = await response.text();
}, { once: true });
