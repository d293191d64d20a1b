"use strict";
// Values under the pointer, series that can be singled out, tables that can be sorted. Everything is drawn without this script.
(() => {
  const root = document.documentElement;
  window.addEventListener("error", (event) => { root.dataset.error = String(event.message); });

  const svgLine = (svg) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "cross");
    svg.appendChild(line);
    return line;
  };

  const row = (colour, text) => {
    const line = document.createElement("div");
    if (colour !== null) {
      const mark = document.createElement("i");
      mark.style.background = `var(--c${colour})`;
      line.appendChild(mark);
    }
    line.appendChild(document.createTextNode(text));
    return line;
  };

  const tipIn = (figure) => {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    tip.hidden = true;
    figure.appendChild(tip);
    return tip;
  };

  const show = (figure, tip, lines, x, y) => {
    tip.replaceChildren(...lines);
    tip.hidden = false;
    const box = figure.getBoundingClientRect();
    const left = x - box.left + 14;
    tip.style.left = `${left + tip.offsetWidth > box.width ? Math.max(0, left - tip.offsetWidth - 28) : left}px`;
    tip.style.top = `${Math.max(0, y - box.top - tip.offsetHeight - 8)}px`;
  };

  const nearest = (points, u) => {
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < u) low = middle + 1; else high = middle;
    }
    return low > 0 && u - points[low - 1][0] < points[low][0] - u ? low - 1 : low;
  };

  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const { x, box, series } = JSON.parse(svg.dataset.chart);
    const figure = svg.closest("figure"), tip = tipIn(figure), cross = svgLine(svg);
    cross.style.display = "none";
    const all = [...new Set(series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b).map((u) => [u]);
    let at = all.length - 1;
    const draw = (u) => {
      const hits = series.map((s) => ({ s, p: s.points[nearest(s.points, u)] })).filter((hit) => Math.abs(hit.p[0] - u) < 24);
      if (!hits.length) return;
      const where = hits.reduce((best, hit) => (Math.abs(hit.p[0] - u) < Math.abs(best.p[0] - u) ? hit : best)).p;
      for (const [name, value] of [["x1", where[0]], ["x2", where[0]], ["y1", box[1]], ["y2", box[3]]]) cross.setAttribute(name, value);
      cross.style.display = "";
      const rect = svg.getBoundingClientRect(), scale = rect.width / svg.viewBox.baseVal.width;
      const shown = hits.sort((a, b) => a.p[1] - b.p[1]).slice(0, 12);
      const lines = shown.map(({ s, p }) => row(s.colour, series.length > 1 ? `${s.label}: ${p[3]}` : p[3]));
      if (hits.length > shown.length) lines.push(row(null, `and ${hits.length - shown.length} more`));
      show(figure, tip, [row(null, `${x} ${where[2]}`), ...lines], rect.left + where[0] * scale, rect.top + hits[0].p[1] * scale);
    };
    const hide = () => { tip.hidden = true; cross.style.display = "none"; };
    svg.addEventListener("pointermove", (event) => {
      const rect = svg.getBoundingClientRect();
      draw(((event.clientX - rect.left) / rect.width) * svg.viewBox.baseVal.width);
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      at = Math.min(all.length - 1, Math.max(0, at + step));
      draw(all[at][0]);
    });
  }

  for (const svg of document.querySelectorAll("svg.bars")) {
    const figure = svg.closest("figure"), tip = tipIn(figure);
    svg.addEventListener("pointermove", (event) => {
      const hint = event.target.dataset && event.target.dataset.hint;
      if (hint) show(figure, tip, [row(null, hint)], event.clientX, event.clientY); else tip.hidden = true;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    // the page shows its own
    for (const title of svg.querySelectorAll("rect > title")) title.parentNode.setAttribute("aria-label", title.textContent), title.remove();
  }

  for (const entry of document.querySelectorAll(".legend li[data-series]")) {
    const figure = entry.closest("figure");
    const single = (on) => {
      for (const mark of figure.querySelectorAll(".mark[data-series]")) {
        mark.classList.toggle("faded", on && mark.dataset.series !== entry.dataset.series);
      }
    };
    entry.addEventListener("pointerenter", () => single(true));
    entry.addEventListener("pointerleave", () => single(false));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (line) => line.cells[column].dataset.key ?? line.cells[column].textContent;
        const order = (a, b) => {
          const [p, q] = [key(a), key(b)];
          if (p === "" || q === "") return (p === "") - (q === "");
          const way = isNaN(p) || isNaN(q) ? p.localeCompare(q) : Number(p) - Number(q);
          return down ? -way : way;
        };
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
      });
    });
  }
  root.dataset.marks = String(document.querySelectorAll("svg .mark").length);
})();
