"use strict";

// Without this script every table stands in its first order and every layer kind can be unfolded.

function valueOf(row, column) {
  const written = row.cells[column].dataset.value;
  if (written === undefined || written === "") return null;
  const number = Number(written);
  return Number.isNaN(number) ? written : number;
}

function compare(first, second) {
  return typeof first === "number" && typeof second === "number"
    ? first - second
    : String(first).localeCompare(String(second));
}

function sortBy(table, column, descending) {
  const rows = [...table.tBodies[0].rows];
  const direction = descending ? -1 : 1;
  rows.sort((one, other) => {
    const first = valueOf(one, column);
    const second = valueOf(other, column);
    if (first === null || second === null) return (first === null) - (second === null);
    return direction * compare(first, second);
  });
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, column, descending);
    });
  });
}

function unfold(kind) {
  if (kind !== null) kind.open = true;
}

const chooser = document.getElementById("kind");
if (chooser) {
  chooser.closest(".chooser").hidden = false;
  chooser.addEventListener("change", () => {
    const isOther = (name) => chooser.value !== "" && name !== chooser.value;
    for (const row of document.querySelectorAll("tr[data-kind]")) row.hidden = isOther(row.dataset.kind);
    for (const section of document.querySelectorAll("details.kind")) section.hidden = isOther(section.id);
    if (chooser.value !== "") unfold(document.getElementById(chooser.value));
  });
  // A link to a kind that is hidden or folded shows it first.
  for (const link of document.querySelectorAll('a[href^="#kind-"]')) {
    link.addEventListener("click", () => {
      const kind = link.getAttribute("href").slice(1);
      unfold(document.getElementById(kind));
      if (chooser.value === "") return;
      chooser.value = kind;
      chooser.dispatchEvent(new Event("change"));
    });
  }
  if (location.hash.startsWith("#kind-")) unfold(document.getElementById(location.hash.slice(1)));
}

// Browsers that keep the clipboard from pages on disk still copy what is selected.
async function copyText(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    getSelection().selectAllChildren(code);
    document.execCommand("copy");
  }
}

for (const command of document.querySelectorAll(".command")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await copyText(command.querySelector("code"));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  command.append(button);
}
