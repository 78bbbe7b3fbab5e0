// The timeline of the fastest profiled step: a lane for each thread or stream, both sides over each other on one axis of time.
// It zooms (buttons, keys, Ctrl and the wheel), moves (drag, arrow keys) and finds names.
const timelineOf = (place, sides, { make, broken, showTip, said }) => {
  const ROW = 15, DEEPEST = 10;
  const whole = Math.max(...sides.map((side) => side.duration));
  const view = { from: 0, to: whole };
  let wanted = "";
  // Nested spans lie below each other: a span is one deeper than those that it starts in.
  const lanes = sides.flatMap((side) => side.lanes.map(([name, flat]) => {
    const spans = [], ends = [];
    for (let at = 0; at < flat.length; at += 3) {
      const [start, length] = [flat[at + 1], flat[at + 2]];
      while (ends.length && ends[ends.length - 1] <= start) ends.pop();
      spans.push({ name: side.names[flat[at]], start, end: start + length, depth: Math.min(ends.length, DEEPEST - 1) });
      ends.push(start + length);
    }
    return { side, name, spans, deep: 1 + spans.reduce((most, one) => Math.max(most, one.depth), 0) };
  }));
  const hue = new Map();
  const colourOf = (name) => {
    if (!hue.has(name)) {
      let sum = 7;
      for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) % 997;
      // From green to violet: red is what is worse, and nothing here.
      hue.set(name, 90 + (sum % 200));
    }
    const isDark = document.documentElement.dataset.theme === "dark";
    // Of every hue the text has 4.5:1 on the fill, and the edge 3:1 on the page.
    const [fill, edge] = isDark ? [24, 65] : [76, 34];
    return [`hsl(${hue.get(name)} 55% ${fill}%)`, `hsl(${hue.get(name)} 55% ${edge}%)`];
  };
  const timeText = (ns) => (ns === 0 ? "0" : whole >= 1e9 ? `${(ns / 1e9).toPrecision(4)} s` : whole >= 1e6 ? `${(ns / 1e6).toPrecision(4)} ms` : `${(ns / 1e3).toPrecision(4)} us`);
  const matches = (one) => !wanted || one.name.toLowerCase().includes(wanted);

  const draw = (lane) => {
    const { canvas } = lane;
    const width = canvas.clientWidth, height = lane.deep * ROW, scale = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(canvas);
    pen.font = `11px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    const each = width / (view.to - view.from);
    for (const one of lane.spans) {
      const left = (one.start - view.from) * each, right = (one.end - view.from) * each;
      if (right < 0 || left > width) continue;
      const wide = Math.max(0.8, right - left);
      pen.globalAlpha = matches(one) ? 1 : 0.15;
      const [fill, edge] = colourOf(one.name);
      const drawn = wide - (wide > 3 ? 0.6 : 0), top = one.depth * ROW;
      // A bar is its edge, one pixel wide, around its fill; a narrow one is edge alone.
      pen.fillStyle = edge;
      pen.fillRect(left, top, drawn, ROW - 1);
      if (drawn > 3) {
        pen.fillStyle = fill;
        pen.fillRect(left + 1, top + 1, drawn - 2, ROW - 3);
      }
      const shown = Math.min(right, width) - Math.max(left, 0) - 6;
      if (shown < 24) continue;
      // A name that does not fit ends with a mark; the pointer shows all of it.
      let text = one.name;
      if (pen.measureText(text).width > shown) {
        let [least, most] = [0, text.length];
        while (least < most) {
          const middle = (least + most + 1) >> 1;
          if (pen.measureText(`${text.slice(0, middle)}…`).width <= shown) least = middle; else most = middle - 1;
        }
        text = least > 1 ? `${text.slice(0, least)}…` : "";
      }
      pen.fillStyle = style.color;
      pen.fillText(text, Math.max(left, 0) + 3, one.depth * ROW + ROW / 2);
    }
    // Where the step of this side ends.
    const end = (lane.side.duration - view.from) * each;
    pen.globalAlpha = 1;
    pen.fillStyle = style.color;
    if (end >= 0 && end < width) pen.fillRect(end, 0, 1, height);
  };
  const axis = make("div", { class: "xs" });
  const redraw = () => {
    lanes.forEach(draw);
    axis.replaceChildren(...[0, 0.5, 1].map((part) => {
      const label = make("span", { class: part === 0 ? "start" : part === 1 ? "end" : null }, timeText(view.from + part * (view.to - view.from)));
      if (part === 0.5) label.style.left = "50%";
      return label;
    }));
  };
  const look = (from, to) => {
    const length = Math.min(whole, Math.max(whole / 5000, to - from));
    view.from = Math.max(0, Math.min(whole - length, from));
    view.to = view.from + length;
    redraw();
  };
  const zoom = (factor, at = 0.5) => {
    const length = view.to - view.from, middle = view.from + at * length;
    look(middle - at * length * factor, middle + (1 - at) * length * factor);
    said.textContent = `from ${timeText(view.from)} to ${timeText(view.to)}`;
  };
  const move = (part) => { const step = part * (view.to - view.from); look(view.from + step, view.to + step); };

  // -- parts of the page ---------------------------------------------------------------------------------------------
  const rows = [];
  for (const side of sides) {
    rows.push(make("p", { class: "side" }, make("strong", {}, side.label), ` ${side.what}`));
    for (const lane of lanes.filter((one) => one.side === side)) {
      lane.canvas = make("canvas", { role: "img", "aria-label": `${side.label}, ${lane.name}: ${lane.spans.length} executions` });
      lane.canvas.style.height = `${lane.deep * ROW}px`;
      rows.push(make("div", { class: "lane" }, make("span", { class: "label" }, ...broken(lane.name)), lane.canvas));
      lane.canvas.addEventListener("pointermove", (event) => {
        const box = lane.canvas.getBoundingClientRect();
        const at = view.from + ((event.clientX - box.left) / box.width) * (view.to - view.from);
        const depth = Math.floor((event.clientY - box.top) / ROW), near = (1.5 / box.width) * (view.to - view.from);
        const found = lane.spans.filter((one) => one.depth === depth && one.start - near <= at && one.end + near >= at).pop();
        showTip(found ? `${found.name}: ${timeText(found.end - found.start)}, from ${timeText(found.start)} on` : "", event);
      });
      lane.canvas.addEventListener("pointerleave", () => showTip(""));
      lane.canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        const box = lane.canvas.getBoundingClientRect();
        zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, (event.clientX - box.left) / box.width);
      }, { passive: false });
      let dragged = null;
      lane.canvas.addEventListener("pointerdown", (event) => { dragged = event.clientX; lane.canvas.setPointerCapture(event.pointerId); });
      lane.canvas.addEventListener("pointermove", (event) => {
        if (dragged === null) return;
        move((dragged - event.clientX) / lane.canvas.clientWidth);
        dragged = event.clientX;
      });
      for (const name of ["pointerup", "pointercancel"]) lane.canvas.addEventListener(name, () => { dragged = null; });
    }
  }
  const button = (text, label, act) => {
    const one = make("button", { type: "button", "aria-label": label }, text);
    one.addEventListener("click", act);
    return one;
  };
  const find = make("input", { type: "search", autocomplete: "off" });
  const count = make("span", { class: "found" });
  const search = () => {
    wanted = find.value.trim().toLowerCase();
    const found = lanes.flatMap((lane) => lane.spans.filter(matches));
    const total = found.reduce((sum, one) => sum + one.end - one.start, 0);
    count.textContent = wanted ? `${found.length} found, ${timeText(total)} in all` : "";
    redraw();
  };
  find.addEventListener("input", search);
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !wanted) return;
    const found = lanes.flatMap((lane) => lane.spans.filter(matches));
    if (found.length) look(Math.min(...found.map((one) => one.start)), Math.max(...found.map((one) => one.end)));
  });
  const body = make("div", { class: "lanes", tabindex: "0", role: "group", "aria-label": "Lanes; plus and minus zoom, arrow keys move, 0 shows the whole step" }, ...rows, make("div", { class: "lane" }, make("span", { class: "label" }), axis));
  body.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => look(0, whole), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2) }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  // Only what this timeline has is explained.
  const note = [
    `A colour is an operator${sides.length > 1 ? ", the same on both sides" : ""}${lanes.some((lane) => lane.deep > 1) ? "; what it calls is below it" : ""}.`,
    "Drag to move; Ctrl and the wheel zoom.",
    sides.some((side) => side.duration < whole) ? "A line is the end of the shorter step." : "",
  ].filter(Boolean).join(" ");
  place.replaceChildren(
    make("div", { class: "tools" },
      make("label", {}, "Find an operator", find), count,
      button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)), button("whole step", "Show the whole step", () => look(0, whole))),
    body,
    make("p", { class: "note" }, note));
  document.addEventListener("themed", redraw);
  window.addEventListener("resize", redraw);
  redraw();
  return redraw;
};
