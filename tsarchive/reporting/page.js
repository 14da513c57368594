"use strict";
// Sorting, filtering, folding, histograms and the memory plan. All text goes in as text: the
// policy of the page forbids markup made of strings.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("page-data").textContent);

  const made = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const drawn = (name, attributes = {}, ...children) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // Tables

  const rowsOf = (table) => [...table.tBodies[0].rows].filter((row) => !row.matches(".drawn"));

  const keyOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent;
    const number = Number(text);
    return text !== "" && Number.isFinite(number) ? number : text;
  };

  const compared = (one, other) => {
    if (typeof one === typeof other) {
      return typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
    }
    return typeof one === "number" ? -1 : 1;
  };

  const sortBy = (table, button) => {
    const heading = button.closest("th");
    const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const column = Number(button.dataset.column);
    const keyed = rowsOf(table).map((row) => [keyOf(row, column), row, openedBy(row)]);
    keyed.sort(([one], [other]) => sign * compared(one, other));
    table.tBodies[0].append(...keyed.flatMap(([, row, below]) => (below ? [row, below] : [row])));
  };

  const filterBy = (input) => {
    const table = document.getElementById(input.dataset.filter);
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = rowsOf(table);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word));
      row.hidden = !fits;
      const below = openedBy(row);
      if (below) below.hidden = !fits;
      shown += fits;
    }
    const count = document.querySelector(`[data-count="${input.dataset.filter}"]`);
    const all = rows.length.toLocaleString("en");
    count.textContent = words.length ? `${shown.toLocaleString("en")} of ${all}` : all;
  };

  // Histograms

  const openedBy = (row) => {
    const next = row.nextElementSibling;
    return next && next.matches(".drawn") ? next : null;
  };

  const WIDTH = 720, HEIGHT = 150, BELOW = 20;

  const histogramOf = (counts, facts) => {
    const most = Math.max(...counts), step = WIDTH / counts.length;
    const label = `${counts.length} equal steps from ${facts.minimum} to ${facts.maximum}`;
    const picture = drawn("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT + BELOW}`, class: "histogram", role: "img", "aria-label": label,
    });
    counts.forEach((count, index) => {
      const height = count ? Math.max((HEIGHT - 4) * count / most, 1) : 0;
      const bar = drawn("rect", {
        x: index * step, y: HEIGHT - height, width: Math.max(step - 1, 0.5), height,
      });
      bar.append(drawn("title", {}, count.toLocaleString("en")));
      picture.append(bar);
    });
    picture.append(drawn("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }));
    const ends = [[0, facts.minimum, "start"], [WIDTH, facts.maximum, "end"]];
    for (const [x, text, anchor] of ends) {
      const tick = drawn("text", { x, y: HEIGHT + 15 }, text);
      tick.style.textAnchor = anchor;
      picture.append(tick);
    }
    return picture;
  };

  const spreadOf = (facts) => {
    const pairs = Object.entries(facts).map(([name, value]) =>
      made("div", {}, made("dt", {}, name), made("dd", {}, value)));
    return made("dl", { class: "spread" }, ...pairs);
  };

  const contentOf = (found) => {
    if (found.problem) return [made("p", { class: "problem" }, found.problem)];
    const parts = [spreadOf(found.facts)];
    if (found.counts.length) parts.push(histogramOf(found.counts, found.facts));
    return parts;
  };

  const open = (button) => {
    const row = button.closest("tr");
    const below = openedBy(row);
    button.setAttribute("aria-expanded", String(!below));
    if (below) {
      below.remove();
      return;
    }
    const cell = made("td", { colspan: row.cells.length });
    cell.append(...contentOf(data.tensors[row.dataset.opens]));
    row.after(made("tr", { class: "drawn" }, cell));
  };

  // The memory plan

  const choose = (picture, box) => {
    picture.querySelector(".chosen")?.classList.remove("chosen");
    box.classList.add("chosen");
    picture.parentElement.querySelector(".told").textContent =
      box.querySelector("title").textContent;
  };

  const walk = (picture, event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const boxes = [...picture.querySelectorAll(".box")]
      .sort((one, other) => one.dataset.value - other.dataset.value);
    const chosen = boxes.findIndex((box) => box.matches(".chosen"));
    const next = chosen < 0 ? (step > 0 ? 0 : boxes.length - 1) : chosen + step;
    if (boxes.length) choose(picture, boxes[(next + boxes.length) % boxes.length]);
  };

  // Events

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.column) sortBy(button.closest("table"), button);
    if (button.matches(".opens")) open(button);
    if (button.dataset.fold) {
      const root = button.closest("section").querySelector(".tree");
      for (const fold of root.querySelectorAll("details")) fold.open = button.dataset.fold === "open";
    }
  });
  document.addEventListener("input", (event) => {
    if (event.target.dataset.filter) filterBy(event.target);
  });
  for (const picture of document.querySelectorAll(".plan")) {
    picture.addEventListener("keydown", (event) => walk(picture, event));
    picture.addEventListener("pointerover", (event) => {
      const box = event.target.closest(".box");
      if (box) choose(picture, box);
    });
  }

  // A link leads into what is folded; paper cannot be unfolded.
  const unfold = () => {
    let place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const target = place;
    for (; place; place = place.parentElement) if (place.matches("details")) place.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
  });
})();
