// The page of one run: shows one workload at a time, draws its figures, sorts and filters its tables.
// Everything from a recording is set as text; nothing is loaded from elsewhere.
"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const said = document.getElementById("said");
  const drawn = new Map();

  // -- theme ---------------------------------------------------------------------------------------------------------
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = (() => { try { return localStorage.getItem("perfguard-theme"); } catch { return null; } })();
  const setTheme = (name) => { root.dataset.theme = name; redraw(); };
  root.dataset.theme = stored || (dark.matches ? "dark" : "light");
  let chosen = Boolean(stored);
  dark.addEventListener("change", (event) => { if (!chosen) setTheme(event.matches ? "dark" : "light"); });
  document.getElementById("theme").addEventListener("click", () => {
    const name = root.dataset.theme === "dark" ? "light" : "dark";
    chosen = true;
    try { localStorage.setItem("perfguard-theme", name); } catch { /* a file may have no storage */ }
    setTheme(name);
  });
  const colour = (role) => getComputedStyle(root).getPropertyValue(`--${role}`).trim();
  const EXTRA = ["#7f6df2", "#c2571a", "#1f8a8a", "#a23b72", "#5a7d1e", "#6b6b6b", "#3f6fb5"];
  const ROLES = new Set(["now", "base", "worse", "better", "faint"]);
  const PHASES = { "phase-settle": "faint", "phase-timed": "now", "phase-wait": "line", "phase-warmup": "base", "phase-active": "better" };

  // Replaces the names of roles by the colours of the theme, in a copy.
  const themed = (value, key) => {
    if (Array.isArray(value)) return value.map((one) => themed(one, key === "color" ? key : undefined));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, themed(one, name)]));
    }
    if (key === "color" && ROLES.has(value)) return colour(value);
    if (key === "color" && value in PHASES) return colour(PHASES[value]);
    if (key === "color" && /^line\d+$/.test(value)) return EXTRA[(Number(value.slice(4)) - 1) % EXTRA.length];
    if (key === "colorscale" && value === "heat") return [[0, colour("cold")], [0.5, colour("card")], [1, colour("hot")]];
    return value;
  };

  // -- small builders ------------------------------------------------------------------------------------------------
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((one) => one !== null && one !== undefined));
    return element;
  };
  const plainTable = (rows) => {
    const [head, ...rest] = rows;
    const table = make("table");
    table.append(make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))));
    table.append(make("tbody", {}, ...rest.map((row) => make("tr", {}, ...row.map((text) => make("td", {}, text))))));
    return table;
  };

  // -- figures -------------------------------------------------------------------------------------------------------
  const layoutOf = (figure, width) => {
    const grid = { gridcolor: colour("line"), zerolinecolor: colour("faint"), linecolor: colour("line"), automargin: true };
    const own = themed(figure.layout);
    return {
      ...own,
      width,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("text"), size: 12, family: getComputedStyle(document.body).fontFamily },
      margin: { l: 8, r: 12, t: 8, b: 36, pad: 2 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hoverlabel: { align: "left" },
      xaxis: { ...grid, ...own.xaxis },
      yaxis: { ...grid, ...own.yaxis },
    };
  };
  const draw = (plot) => {
    const figure = drawn.get(plot);
    const width = Math.max(200, plot.clientWidth);
    return Plotly.react(plot, themed(figure.traces), layoutOf(figure, width), { displayModeBar: false, responsive: false, scrollZoom: false });
  };
  const redraw = () => { for (const plot of drawn.keys()) if (plot.clientWidth) draw(plot); };
  const figureOf = (figure) => {
    const plot = make("div", { class: "plot", role: "img", "aria-label": `${figure.title}. ${figure.caption}` });
    plot.style.height = `${figure.layout.height}px`;
    const table = make("details", {}, make("summary", {}, "as a table"), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${figure.title}, as a table` }, plainTable(figure.rows)));
    const caption = make("figcaption", {}, figure.title, make("small", {}, figure.caption));
    drawn.set(plot, figure);
    return make("figure", { "data-kind": figure.kind }, caption, plot, table);
  };
  const oneOf = (figures) => {
    if (figures.length < 2) return figures.map(figureOf);
    const choice = make("select", {}, ...figures.map((figure, at) => make("option", { value: at }, figure.title)));
    const place = make("div", {}, figureOf(figures[0]));
    choice.addEventListener("change", () => {
      for (const plot of place.querySelectorAll(".plot")) drawn.delete(plot);
      place.replaceChildren(figureOf(figures[Number(choice.value)]));
      place.querySelectorAll(".plot").forEach(draw);
    });
    return [make("label", { class: "tools" }, "What to show ", choice), place];
  };

  // -- tables that sort and filter -----------------------------------------------------------------------------------
  const PAGE = 100;
  const STATES = ["worse", "warned", "changed", "better", "not-comparable", "same", "shown", ""];
  const SYMBOL = { worse: "▲ ", warned: "△ ", better: "▼ ", changed: "≠ ", same: "= ", shown: "", "not-comparable": "? ", "": "" };
  const number = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e15) return String(value);
    return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : size >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
  };
  const signed = (value) => (value === null ? "" : `${value >= 0 ? "+" : "−"}${number(Math.abs(value))}`);
  const percent = (before, now) => (before && now !== null ? (100 * (now - before)) / Math.abs(before) : null);
  const OPERATORS = (rows) => {
    const largest = rows.reduce((most, row) => Math.max(most, row[4] || 0, row[5] || 0), 0) || 1;
    const compared = rows.some((row) => row[1] !== "");
    const before = rows.some((row) => row[2] !== null || row[4] !== null);
    const column = (title, value, more = {}) => ({ title, value, ...more });
    return [
      column("operator", (row) => row[0], { text: true, why: (row) => row[7] }),
      compared && column("verdict", (row) => STATES.indexOf(row[1]), { show: (row) => `${SYMBOL[row[1]]}${row[1]}`, class: (row) => `state ${row[1]}`, first: 1 }),
      before && column("calls before", (row) => row[2], { less: true }),
      column(before ? "calls now" : "calls a step", (row) => row[3]),
      before && column("us before", (row) => row[4]),
      column(before ? "us now" : "us a step", (row) => row[5]),
      before && column("change us", (row) => (row[5] === null || row[4] === null ? null : row[5] - row[4]), { show: (row, value) => signed(value) }),
      before && column("change %", (row) => percent(row[4], row[5]), { show: (row, value) => signed(value), less: true }),
      before && column("allowed us", (row) => row[6], { less: true }),
      column("share", (row) => row[5], { less: true, bar: (row) => [(row[4] || 0) / largest, (row[5] || 0) / largest] }),
    ].filter(Boolean);
  };
  const METRICS = (rows) => {
    const compared = rows.some((row) => row[1] !== "");
    return [
      { title: "number", value: (row) => row[0], text: true },
      compared && { title: "verdict", value: (row) => STATES.indexOf(row[1]), show: (row) => `${SYMBOL[row[1]]}${row[1]}`, class: (row) => `state ${row[1]}`, first: 1 },
      compared && { title: "baseline", value: (row) => row[2], show: (row) => row[6] },
      { title: "now", value: (row) => row[3], show: (row) => row[7] },
      compared && { title: "change", value: (row) => row[4], show: (row) => row[8] },
      compared && { title: "allowed", value: (row) => row[5], show: (row) => row[9], less: true },
    ].filter(Boolean);
  };

  const grid = (place, rows, columnsOf, { name, sortBy, nothing }) => {
    if (!rows.length) { place.append(make("p", {}, nothing)); return; }
    const columns = columnsOf(rows);
    const lower = rows.map((row) => row[0].toLowerCase());
    const state = { by: sortBy, up: columns[sortBy].first === 1, text: "", only: "", pages: 1 };
    const search = make("input", { type: "search", autocomplete: "off" });
    const states = [...new Set(rows.map((row) => row[1]))].filter((one) => one !== "").sort((a, b) => STATES.indexOf(a) - STATES.indexOf(b));
    const only = make("select", {}, make("option", { value: "" }, "all"), ...states.map((one) => make("option", { value: one }, one)));
    const count = make("span", {});
    const tools = make("div", { class: "tools" }, make("label", {}, `Filter ${name}`, search), states.length > 1 ? make("label", {}, "Verdict", only) : null, count);
    const body = make("tbody");
    const heads = columns.map((column, at) => {
      const button = make("button", { type: "button" }, column.title);
      button.addEventListener("click", () => {
        state.up = state.by === at ? !state.up : Boolean(column.text) || column.first === 1;
        state.by = at;
        show();
        said.textContent = `sorted by ${column.title}, ${state.up ? "ascending" : "descending"}`;
      });
      return make("th", { scope: "col", class: [column.text || column.first ? "" : "number", column.less ? "less" : ""].join(" ").trim() || null }, button);
    });
    const more = make("button", { type: "button" });
    more.addEventListener("click", () => { state.pages += 5; show(); });
    const cell = (column, row) => {
      const less = column.less ? " less" : "";
      if (column.bar) {
        const [base, now] = column.bar(row);
        const bar = make("span", { class: "bar", role: "img", "aria-label": `${Math.round(100 * now)} % of the longest` }, make("i"), make("i"));
        bar.children[0].style.width = `${100 * base}%`;
        bar.children[1].style.width = `${100 * now}%`;
        return make("td", { class: `number${less}` }, bar);
      }
      const value = column.value(row);
      const shown = column.show ? column.show(row, value) : column.text ? value : number(value);
      if (column.text) {
        const why = column.why ? column.why(row) : "";
        return make("th", { scope: "row" }, make("bdi", {}, shown), why ? make("small", {}, why) : null);
      }
      const classes = column.class ? column.class(row) : `number${less}`;
      return make("td", { class: classes }, shown);
    };
    const show = () => {
      const column = columns[state.by];
      const chosen = [];
      for (let at = 0; at < rows.length; at += 1) {
        if ((!state.only || rows[at][1] === state.only) && (!state.text || lower[at].includes(state.text))) chosen.push(at);
      }
      const values = new Map(chosen.map((at) => [at, column.value(rows[at])]));
      const direction = state.up ? 1 : -1;
      chosen.sort((one, other) => {
        const [left, right] = [values.get(one), values.get(other)];
        if (left === null || right === null) return left === right ? one - other : left === null ? 1 : -1;
        if (left === right) return one - other;
        return (column.text ? left.localeCompare(right) : left - right) * direction;
      });
      const visible = chosen.slice(0, PAGE * state.pages);
      body.replaceChildren(...visible.map((at) => make("tr", {}, ...columns.map((one) => cell(one, rows[at])))));
      heads.forEach((head, at) => {
        if (at === state.by) head.setAttribute("aria-sort", state.up ? "ascending" : "descending");
        else head.removeAttribute("aria-sort");
        head.firstChild.textContent = columns[at].title + (at === state.by ? (state.up ? " ↑" : " ↓") : "");
      });
      count.textContent = visible.length < chosen.length ? `${visible.length} of ${chosen.length} shown` : `${chosen.length} of ${rows.length}`;
      more.hidden = visible.length >= chosen.length;
      more.textContent = `Show more (${chosen.length - visible.length} left)`;
    };
    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { state.text = search.value.toLowerCase(); state.pages = 1; show(); said.textContent = `${count.textContent} ${name}`; }, 80);
    });
    only.addEventListener("change", () => { state.only = only.value; state.pages = 1; show(); said.textContent = `${count.textContent} ${name}`; });
    const table = make("table", {}, make("caption", { class: "visually-hidden" }, name), make("thead", {}, make("tr", {}, ...heads)), body);
    place.append(tools, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, table), more);
    show();
  };

  // -- one workload at a time ----------------------------------------------------------------------------------------
  const built = new Set();
  const build = (article, data) => {
    for (const place of article.querySelectorAll("[data-figures]")) {
      const kinds = place.dataset.figures.split(" ");
      const figures = data.figures.filter((figure) => kinds.includes(figure.kind));
      place.append(...(place.closest(".needs-figures") ? oneOf(figures) : figures.map(figureOf)));
      if (place.classList.contains("beside")) article.classList.toggle("flat", !figures.length);
      const section = place.closest(".needs-figures");
      if (section) section.hidden = !figures.length;
    }
    if (!article.querySelector(".operators")) return;
    const column = data.operators.some((row) => row[1] !== "") ? 1 : 0;
    grid(article.querySelector(".operators"), data.operators, OPERATORS, {
      name: "operators", sortBy: OPERATORS(data.operators).findIndex((one) => one.title === "us now" || one.title === "us a step"), nothing: "No operator was measured.",
    });
    grid(article.querySelector(".metrics"), data.metrics, METRICS, { name: "numbers", sortBy: column, nothing: "Nothing else was measured." });
  };
  const show = (at) => {
    const article = document.getElementById(`w${at}`);
    if (!article) return false;
    for (const one of document.querySelectorAll("main > article")) one.hidden = one !== article;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.number === String(at)) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (!built.has(at)) { built.add(at); build(article, DATA[at]); }
    article.querySelectorAll(".plot").forEach(draw);
    return true;
  };
  const follow = () => {
    const found = /^#[wf](\d+)$/.exec(location.hash);
    // A link from another page of this name may lead nowhere here.
    if (!found || !show(Number(found[1]))) return false;
    const place = document.getElementById(location.hash.slice(1));
    if (place && location.hash.startsWith("#f")) place.scrollIntoView();
    else window.scrollTo(0, 0);
    return true;
  };
  window.addEventListener("hashchange", follow);
  const find = document.getElementById("find-workload");
  if (find) find.addEventListener("input", () => {
    const text = find.value.toLowerCase();
    for (const item of document.querySelectorAll("#workloads li")) item.hidden = !item.textContent.toLowerCase().includes(text);
  });
  let resizing = 0;
  window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redraw, 120); });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.classList.contains("copy")) copy(button);
    if (button.classList.contains("timeline")) openTimeline(button);
    if (button.classList.contains("save")) saveTimeline(button);
  });
  const copy = (button) => {
    const code = button.parentElement.querySelector("code");
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    const done = (text) => { button.textContent = text; said.textContent = text; };
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => done("copied"), () => done("selected"));
    else done("selected");
  };

  // -- the timeline --------------------------------------------------------------------------------------------------
  const traceOf = async (at) => {
    const element = document.querySelector(`script.trace[data-number="${at}"]`);
    const packed = Uint8Array.from(atob(element.textContent), (one) => one.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return { name: element.dataset.name, buffer: await new Response(stream).arrayBuffer() };
  };
  // Perfetto's documents, "Deep linking to the Perfetto UI": ask until it answers PONG, then hand over the buffer.
  const PERFETTO = "https://ui.perfetto.dev";
  const openTimeline = async (button) => {
    const other = window.open(PERFETTO);
    if (!other) { said.textContent = "the browser blocked the window"; return; }
    const { name, buffer } = await traceOf(button.dataset.number);
    let asking = 0;
    const answered = (event) => {
      if (event.source !== other || event.data !== "PONG") return;
      clearInterval(asking);
      window.removeEventListener("message", answered);
      other.postMessage({ perfetto: { buffer, title: name, fileName: "trace.json" } }, PERFETTO, [buffer]);
      said.textContent = "the timeline was handed over";
    };
    window.addEventListener("message", answered);
    asking = setInterval(() => other.postMessage("PING", PERFETTO), 100);
    setTimeout(() => clearInterval(asking), 60000);
  };
  const saveTimeline = async (button) => {
    const { buffer } = await traceOf(button.dataset.number);
    const link = make("a", { href: URL.createObjectURL(new Blob([buffer], { type: "application/json" })), download: "trace.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  if (DATA.length && !follow()) show(0);
  root.dataset.built = "";
})();
