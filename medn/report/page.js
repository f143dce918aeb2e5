"use strict";

// Without this script every table stands in its first order and every layer kind is shown.

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

const chooser = document.getElementById("kind");
if (chooser) {
  chooser.closest(".chooser").hidden = false;
  chooser.addEventListener("change", () => {
    const isOther = (name) => chooser.value !== "" && name !== chooser.value;
    for (const row of document.querySelectorAll("tr[data-kind]")) row.hidden = isOther(row.dataset.kind);
    for (const section of document.querySelectorAll("section.kind")) section.hidden = isOther(section.id);
  });
  // A link to a kind that is hidden shows it first.
  for (const link of document.querySelectorAll('a[href^="#kind-"]')) {
    link.addEventListener("click", () => {
      if (chooser.value === "") return;
      chooser.value = link.getAttribute("href").slice(1);
      chooser.dispatchEvent(new Event("change"));
    });
  }
}
