"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const root = document.documentElement;

  // #theme=dark or #theme=light in the address, and the button.
  const asked = /theme=(dark|light)/.exec(location.hash);
  if (asked) root.dataset.theme = asked[1];
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Tables: a click on a head sorts, another one turns the order round. Numbers come by data-v.
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
      : typeof a === "number" ? 1 : typeof b === "number" ? -1
        : a.localeCompare(b, "en", { numeric: true });
  for (const table of all("table.sortable")) {
    const heads = all("th", table);
    heads.forEach((head, column) => head.addEventListener("click", () => {
      const body = table.tBodies[0];
      const rows = [...body.rows];
      const numbers = rows.some((row) => row.cells[column].dataset.v !== undefined);
      const before = head.getAttribute("aria-sort");
      const down = before === "none" ? numbers : before === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((a, b) => (down ? -1 : 1) * compare(value(a, column), value(b, column)));
      body.append(...rows);
    }));
    const filter = table.closest("section").querySelector("input.filter");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
  }

  // What is picked in one picture is marked in all, and told at the bottom.
  const detail = document.getElementById("detail");
  const pick = (key) => {
    all(".picked").forEach((each) => each.classList.remove("picked"));
    const found = key === null ? [] : all("[data-k]").filter((each) => each.dataset.k === key);
    found.forEach((each) => each.classList.add("picked"));
    const box = found.find((each) => each.classList.contains("box"));
    const titled = box || found.find((each) => each.querySelector("title"));
    detail.hidden = !titled;
    detail.textContent = titled ? titled.querySelector("title").textContent : "";
    return box;
  };
  const show = (box) => {
    const view = box && box.closest(".window");
    if (!view) return;
    const at = box.getBoundingClientRect();
    const frame = view.getBoundingClientRect();
    view.scrollTop += at.top - frame.top - (frame.height - at.height) / 2;
    view.scrollLeft += at.left - frame.left - (frame.width - at.width) / 2;
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest("button, input, select, a, #detail")) return;
    const hit = event.target.closest("[data-k]");
    const box = pick(hit ? hit.dataset.k : null);
    if (hit && !hit.classList.contains("box")) show(box);
  });
  document.addEventListener("keydown", (event) => {
    const hit = event.target.closest && event.target.closest("[data-k]");
    if (event.key === "Enter" && hit) pick(hit.dataset.k);
    if (event.key === "Escape") pick(null);
  });

  // Pictures that are larger than the window: buttons, and the wheel with Ctrl.
  for (const panned of all(".panned")) {
    const view = panned.querySelector(".window");
    const svg = view.querySelector("svg");
    const [width, height] = [svg.width.baseVal.value, svg.height.baseVal.value];
    let scale = 1;
    const zoom = (to, x = view.clientWidth / 2, y = view.clientHeight / 2) => {
      const next = Math.min(4, Math.max(0.02, to));
      const [left, top] = [(view.scrollLeft + x) / scale, (view.scrollTop + y) / scale];
      scale = next;
      svg.setAttribute("width", width * scale);
      svg.setAttribute("height", height * scale);
      view.scrollLeft = left * scale - x;
      view.scrollTop = top * scale - y;
    };
    const fits = { width: () => view.clientWidth / width,
      all: () => Math.min(view.clientWidth / width, view.clientHeight / height) };
    for (const button of all("[data-zoom]", panned)) {
      const by = button.dataset.zoom;
      button.addEventListener("click", () =>
        zoom(by === "in" ? scale * 1.3 : by === "out" ? scale / 1.3 : fits[by]()));
    }
    view.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const frame = view.getBoundingClientRect();
      zoom(scale * Math.exp(-event.deltaY / 400), event.clientX - frame.left, event.clientY - frame.top);
    }, { passive: false });
    let held = null;
    view.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse" && event.button === 0) held = [event.clientX, event.clientY];
    });
    addEventListener("pointermove", (event) => {
      if (!held) return;
      view.scrollLeft -= event.clientX - held[0];
      view.scrollTop -= event.clientY - held[1];
      held = [event.clientX, event.clientY];
    });
    addEventListener("pointerup", () => { held = null; });
    zoom(Math.max(0.55, Math.min(1, fits.width())));
    view.scrollLeft = (view.scrollWidth - view.clientWidth) / 2;
    view.scrollTop = 0;
  }

  // Which colours a graph has.
  for (const button of all("[data-colours]")) {
    button.addEventListener("click", () => {
      const graph = button.closest("section").querySelector("svg.graph");
      graph.classList.remove("by-time", "by-change");
      graph.classList.add(button.dataset.colours);
      all("[data-colours]").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    });
  }
})();
