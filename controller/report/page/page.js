"use strict";
// Sorts and filters tables, draws figures in the colours of the theme. The tables are complete without it.

// --- tables ---

function numberOf(text) {
  const found = parseFloat(text.replace(/,/g, ""));
  return Number.isNaN(found) ? null : found;
}

function compareCells(first, second, isNumber) {
  if (!isNumber) return first.localeCompare(second, "en", { numeric: true });
  return numberOf(first) - numberOf(second);
}

function sortTable(header) {
  const row = header.parentElement;
  const body = header.closest("table").tBodies[0];
  const column = [...row.children].indexOf(header);
  const isNumber = header.classList.contains("number");
  const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  const sign = order === "ascending" ? 1 : -1;
  const isAbsent = (text) => text === "-" || (isNumber && numberOf(text) === null);
  const lines = [...body.rows].map((line) => [line, line.children[column].textContent]);
  // What is absent stays at the end in both directions.
  lines.sort(([, a], [, b]) => isAbsent(a) - isAbsent(b) || (isAbsent(a) ? 0 : sign * compareCells(a, b, isNumber)));
  for (const other of row.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
  body.append(...lines.map(([line]) => line));
}

for (const header of document.querySelectorAll("table.sortable thead th")) {
  header.querySelector("button").addEventListener("click", () => sortTable(header));
}

const filter = document.getElementById("filter");
const wordsOf = () => filter.value.toLowerCase().split(/\s+/).filter(Boolean);
const matches = (text, words) => words.every((word) => text.toLowerCase().includes(word));

function applyFilter() {
  const words = wordsOf();
  const lines = [...document.querySelectorAll("table.sortable tbody tr")];
  for (const line of lines) line.hidden = !matches(line.textContent, words);
  for (const entry of document.querySelectorAll("#environments > details")) {
    entry.hidden = !matches(entry.textContent, words);
  }
  const shown = lines.filter((line) => !line.hidden).length;
  document.getElementById("count").textContent = words.length ? `${shown} of ${lines.length} rows` : "";
}

filter.addEventListener("input", applyFilter);

// --- figures ---

const figures = JSON.parse(document.getElementById("figures").textContent);

function theme() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ink: value("ink"), paper: value("paper"), rule: value("rule"), slots: value("slots").split(" ") };
}

// Replaces names of colours, wherever they are, by those of the theme.
function coloured(value, colours) {
  if (Array.isArray(value)) return value.map((entry) => coloured(entry, colours));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, coloured(entry, colours)]));
  }
  if (value === "ink" || value === "paper") return colours[value];
  if (typeof value === "string" && /^slot:\d+$/.test(value)) return colours.slots[Number(value.slice(5))];
  return value;
}

function layoutOf(layout, colours) {
  const axis = { gridcolor: colours.rule, zerolinecolor: colours.rule, linecolor: colours.rule };
  return {
    ...layout,
    paper_bgcolor: colours.paper,
    plot_bgcolor: colours.paper,
    font: { color: colours.ink, family: "system-ui, sans-serif", size: 13 },
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
    hoverlabel: { bgcolor: colours.paper, bordercolor: colours.ink, font: { color: colours.ink } },
  };
}

function draw() {
  const colours = theme();
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  return Promise.all(
    Object.entries(figures).map(([id, figure]) =>
      Plotly.react(id, coloured(figure.data, colours), layoutOf(figure.layout, colours), config),
    ),
  );
}

// --- theme: as the system, light, dark ---

const button = document.getElementById("theme");
button.addEventListener("click", () => {
  const root = document.documentElement;
  const next = { undefined: "light", light: "dark" }[root.dataset.theme];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  button.textContent = `Theme: ${next || "automatic"}`;
  draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
// Paper is white: the style sheet gives print the light colours, and the figures follow.
matchMedia("print").addEventListener("change", draw);
draw().then(() => document.documentElement.setAttribute("data-drawn", ""));
