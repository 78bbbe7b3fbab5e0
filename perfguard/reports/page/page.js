// The page of one run: shows one workload at a time, sorts and filters its tables, and draws its timeline.
// Everything from a recording is set as text; nothing is loaded from elsewhere.
"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const said = document.getElementById("said");

  // -- theme ---------------------------------------------------------------------------------------------------------
  // Without a choice the colours follow the system; the timeline listens for `themed`.
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = (() => { try { return localStorage.getItem("perfguard-theme"); } catch { return null; } })();
  const setTheme = (name) => { root.dataset.theme = name; document.dispatchEvent(new Event("themed")); };
  setTheme(chosen || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", (event) => { if (!chosen) setTheme(event.matches ? "dark" : "light"); });
  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("perfguard-theme", chosen); } catch { /* a file may have no storage */ }
    setTheme(chosen);
  });

  // -- small builders ------------------------------------------------------------------------------------------------
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((one) => one !== null && one !== undefined));
    return element;
  };
  // No line breaks between a number and its unit.
  const kept = (text) => text.replace(/(?<=\d) (?=(?:%|ns|us|ms|s|bytes|[KMGT]iB)(?!\w))/g, "\u00a0");
  // A text whose lines may break behind `/`, `::` and `_`, and before `[`.
  const broken = (text) => {
    const parts = kept(String(text)).split(/(?<=::|[/_])|(?=\[)/);
    return parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));
  };

  // -- figures: drawn already; here is what the pointer shows ------------------------------------------------------------
  const tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  document.body.append(tip);
  const showTip = (text, event) => {
    tip.hidden = !text;
    if (!text) return;
    tip.replaceChildren(...broken(text));
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4))}px`;
    tip.style.top = `${event.clientY + height + 20 > innerHeight ? event.clientY - height - 8 : event.clientY + 16}px`;
  };
  const nearest = (points, at) => points.reduce((best, one) => (Math.abs(one[0] - at) < Math.abs(best[0] - at) ? one : best), points[0]);
  const withHover = (article, hover) => {
    for (const drawing of article.querySelectorAll(".chart[data-hover]")) {
      const points = hover[Number(drawing.dataset.hover)];
      const area = drawing.querySelector("svg");
      if (!points.length) continue;
      area.addEventListener("pointermove", (event) => {
        const box = area.getBoundingClientRect();
        showTip(nearest(points, (event.clientX - box.left) / box.width)[1], event);
      });
      area.addEventListener("pointerleave", () => showTip(""));
    }
  };
  // Of several figures in one place one is shown, the first one in the beginning.
  const withChoice = (section) => {
    const figures = [...section.querySelectorAll("figure")];
    if (figures.length < 2) return;
    const choice = make("select", {}, ...figures.map((figure, at) => {
      const caption = figure.querySelector("figcaption").cloneNode(true);
      caption.querySelector("small").remove();
      return make("option", { value: at }, caption.textContent);
    }));
    const pick = () => figures.forEach((figure, at) => { figure.hidden = at !== Number(choice.value); });
    choice.addEventListener("change", pick);
    pick();
    section.querySelector(".figures").before(make("label", { class: "tools" }, "What to show ", choice));
  };

  // -- tables that sort and filter -----------------------------------------------------------------------------------
  const PAGE = 100;
  const STATES = ["worse", "warned", "changed", "better", "not-comparable", "same", "not judged", ""];
  const SYMBOL = { worse: "▲ ", warned: "△ ", better: "▼ ", changed: "≠ ", same: "= ", "not judged": "", "not-comparable": "? ", "": "" };
  const number = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e15) return String(value);
    return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : size >= 0.01 ? value.toFixed(2) : value.toPrecision(2);
  };
  const signed = (value) => (value === null ? "" : `${value >= 0 ? "+" : "−"}${number(Math.abs(value))}`);
  const percent = (before, now) => (before && now !== null ? (100 * (now - before)) / Math.abs(before) : null);
  const OPERATORS = (rows, step) => {
    // Of a step whose own time is not known, the operators are all that is.
    const whole = [4, 5].map((side, at) => step[at] || rows.reduce((sum, row) => sum + (row[side] || 0), 0) || 1);
    const compared = rows.some((row) => row[1] !== "");
    const before = rows.some((row) => row[2] !== null || row[4] !== null);
    const column = (title, value, more = {}) => ({ title, value, ...more });
    return [
      column("operator", (row) => row[0], { text: true, why: (row) => row[7] }),
      compared && column("verdict", (row) => STATES.indexOf(row[1]), { show: (row) => `${SYMBOL[row[1]]}${row[1]}`, class: (row) => `state ${row[1].replace(" ", "-")}`, first: 1 }),
      before && column("calls before", (row) => row[2], { less: true }),
      column(before ? "calls now" : "calls a step", (row) => row[3], { less: before }),
      before && column("us before", (row) => row[4], { less: "least" }),
      column(before ? "us now" : "us a step", (row) => row[5]),
      before && column("change us", (row) => (row[5] === null || row[4] === null ? null : row[5] - row[4]), { show: (row, value) => signed(value) }),
      before && column("change %", (row) => percent(row[4], row[5]), { show: (row, value) => signed(value), less: true }),
      before && column("allowed us", (row) => row[6], { less: true }),
      column("share of the step", (row) => row[5], { less: true, bar: (row) => [4, 5].map((side, at) => Math.min(1, (row[side] || 0) / whole[at])) }),
    ].filter(Boolean);
  };
  const METRICS = (rows) => {
    const compared = rows.some((row) => row[1] !== "");
    return [
      { title: "number", value: (row) => row[0], text: true },
      compared && { title: "verdict", value: (row) => STATES.indexOf(row[1]), show: (row) => `${SYMBOL[row[1]]}${row[1]}`, class: (row) => `state ${row[1].replace(" ", "-")}`, first: 1 },
      compared && { title: "baseline", value: (row) => row[2], show: (row) => row[6], less: "least" },
      { title: "now", value: (row) => row[3], show: (row) => row[7] },
      compared && { title: "change", value: (row) => row[4], show: (row) => row[8] },
      compared && { title: "allowed", value: (row) => row[5], show: (row) => row[9], less: true },
    ].filter(Boolean);
  };

  // What is hidden on a narrow screen (`less`), or on a phone only (`least`).
  const lessOf = (column) => (column.less === true ? "less" : column.less || "");
  const grid = (place, rows, columnsOf, { name, sortBy, nothing }) => {
    if (!rows.length) { place.replaceChildren(make("p", {}, nothing)); return; }
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
      return make("th", { scope: "col", class: [column.text || column.first || column.bar ? "" : "number", lessOf(column)].join(" ").trim() || null }, button);
    });
    const more = make("button", { type: "button" });
    more.addEventListener("click", () => { state.pages += 5; show(); });
    const cell = (column, row) => {
      const less = ` ${lessOf(column)}`.trimEnd();
      if (column.bar) {
        const [base, now] = column.bar(row);
        const bar = make("span", { class: "bar", role: "img", "aria-label": `${number(100 * now)} % of the step` }, make("i"), make("i"));
        bar.children[0].style.width = `${100 * base}%`;
        bar.children[1].style.width = `${100 * now}%`;
        return make("td", { class: `share${less}` }, bar, ` ${number(100 * now)}\u00a0%`);
      }
      const value = column.value(row);
      const shown = column.show ? column.show(row, value) : column.text ? value : number(value);
      if (column.text) {
        const why = column.why ? column.why(row) : "";
        return make("th", { scope: "row" }, make("bdi", {}, ...broken(shown)), why ? make("small", {}, ...broken(why)) : null);
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
    const onPhone = columns.filter((column) => !column.text && !column.less).length;
    const table = make("table", { class: "stacked" }, make("caption", { class: "visually-hidden" }, name), make("thead", {}, make("tr", {}, ...heads)), body);
    table.style.setProperty("--tracks", `repeat(${onPhone}, minmax(0, 1fr))`);
    place.replaceChildren(tools, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, table), more);
    show();
  };

  // -- one workload at a time ----------------------------------------------------------------------------------------
  // What redraws each workload that was shown.
  const built = new Map();
  const build = (at, article, data) => {
    withHover(article, data.hover);
    article.querySelectorAll(".choice").forEach(withChoice);
    const timeline = article.querySelector(".timeline-view");
    if (timeline) built.set(at, timelineOf(timeline, data.timeline, { make, broken, showTip, said }));
    if (!article.querySelector(".operators")) return;
    const column = data.operators.some((row) => row[1] !== "") ? 1 : 0;
    grid(article.querySelector(".operators"), data.operators, (rows) => OPERATORS(rows, data.step), {
      name: "operators", sortBy: OPERATORS(data.operators, data.step).findIndex((one) => one.title === "us now" || one.title === "us a step"), nothing: "No operator was measured.",
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
    if (!built.has(at)) { built.set(at, () => {}); build(at, article, DATA[at]); }
    built.get(at)();
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
