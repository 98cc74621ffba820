"use strict";
/* Zooms all plots together, shows what is under the pointer, and draws the timeline of a partition.
   The page's data is compressed JSON; see _packed in report/page.py. */
(async () => {
  const byId = (id) => document.getElementById(id);
  const letters = byId("data").content.textContent.trim().replace(/-/g, "+").replace(/_/g, "/");
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(text).json();
  const plots = [...document.querySelectorAll("svg.plot")];
  const namespace = plots[0].namespaceURI;
  const frame = plots[0].querySelector(".time");
  const left = frame.x.baseVal.value, width = frame.width.baseVal.value;
  const span = Math.max(data.end - data.begin, 1), shortest = Math.min(span, 10);
  const near = 5, letterWidth = 6.6, lifeRow = 44, dayMs = 86400000;
  let view = [data.begin, data.end];

  const made = (tag, attributes, content = "") => {
    const element = document.createElementNS(namespace, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = content;
    return element;
  };
  const inDrawing = (ms) => left + ((ms - data.begin) / span) * width;
  const inView = (x) => {
    const [begin, end] = view.map(inDrawing);
    return left + ((x - begin) / Math.max(end - begin, 1e-9)) * width;
  };
  const timeAt = (x) => view[0] + ((x - left) / width) * (view[1] - view[0]);
  const clock = (ms) =>
    data.elapsed ? `${(ms / 1000).toFixed(3)} s` : new Date(ms).toISOString().replace("T", " ").slice(0, 23);

  /* Time axes */
  const ticks = (group) => {
    const length = view[1] - view[0];
    const longest = data.steps[data.steps.length - 1];
    const step = data.steps.find((ms) => length / ms <= 8) || Math.ceil(length / 8 / longest) * longest;
    const digits = step >= dayMs ? 10 : step >= 60000 ? 16 : step >= 1000 ? 19 : 23;
    const foot = Number(group.dataset.foot);
    group.replaceChildren();
    let day = null;
    for (let ms = Math.ceil(view[0] / step) * step; ms <= view[1]; ms += step) {
      const x = inView(inDrawing(ms)), whole = clock(ms).slice(0, digits);
      let shown = digits > 10 && day === whole.slice(0, 10) ? whole.slice(11) : whole;
      if (data.elapsed) shown = `${ms / 1000} s`;
      day = whole.slice(0, 10);
      group.append(
        made("line", { class: "axis", x1: x, x2: x, y1: foot, y2: foot + 5 }),
        made("text", { x, y: foot + 19, "text-anchor": "middle" }, shown),
      );
    }
  };
  const place = (label) => {
    const begin = Math.max(inView(Number(label.dataset.begin)), left);
    const end = Math.min(inView(Number(label.dataset.end)), left + width);
    const { most, length } = label.dataset;
    const fits = most || length || end - begin > letterWidth * (label.textContent.length + 1);
    label.style.display = end >= begin && fits ? "" : "none";
    label.setAttribute("x", Math.max(Math.min(begin, Number(most ?? begin)), left));
    if (!length) return;
    const isBefore = begin + Number(length) > left + width;
    label.setAttribute("text-anchor", isBefore ? "end" : "start");
    label.setAttribute("dx", isBefore ? -4 : 4);
  };
  const show = (begin, end) => {
    const length = Math.min(Math.max(end - begin, shortest), span);
    const from = Math.min(Math.max(begin, data.begin), data.end - length);
    view = [from, from + length];
    const [first, last] = view.map(inDrawing);
    for (const time of document.querySelectorAll("svg.time")) {
      const height = time.viewBox.baseVal.height;
      time.setAttribute("viewBox", `${first} 0 ${Math.max(last - first, 1e-6)} ${height}`);
    }
    document.querySelectorAll(".ticks").forEach(ticks);
    document.querySelectorAll(".plot .label").forEach(place);
    byId("range").textContent = `${clock(view[0])} to ${clock(view[1])}${data.elapsed ? "" : " UTC"}`;
  };
  const zoom = (factor, middle = (view[0] + view[1]) / 2) =>
    show(middle - (middle - view[0]) * factor, middle + (view[1] - middle) * factor);
  const reset = () => show(data.begin, data.end);
  const pan = (share) => {
    const by = (view[1] - view[0]) * share;
    show(view[0] + by, view[1] + by);
  };
  const actions = { in: () => zoom(0.5), out: () => zoom(2), reset };
  const keys = {
    "+": actions.in, "=": actions.in, "-": actions.out, 0: reset, Escape: reset,
    ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25),
  };
  for (const button of document.querySelectorAll("[data-do]"))
    button.addEventListener("click", actions[button.dataset.do]);

  /* Pointer and keyboard on plots */
  const xOf = (plot, event) => {
    const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse()).x;
    return Math.min(Math.max(x, left), left + width);
  };
  const tell = (plot, x) => {
    const within = (near / width) * (view[1] - view[0]), ms = timeAt(x);
    const marks = data.marks[plot.dataset.marks].filter((mark) => Math.abs(mark[0] - ms) <= within);
    const told = marks.slice(0, 6).map((mark) => `${clock(mark[0]).slice(data.elapsed ? 0 : 11)} ${mark[1]}`);
    byId("under").textContent = `${clock(ms)}${told.length ? ": " : ""}${told.join(", ")}`;
  };
  for (const plot of plots) {
    let begun = null, selected = null;
    const stop = () => {
      selected?.remove();
      begun = selected = null;
    };
    plot.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      const { y, height } = plot.viewBox.baseVal;
      begun = xOf(plot, event);
      selected = made("rect", { class: "selected", x: begun, y, width: 0, height });
      plot.append(selected);
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointermove", (event) => {
      const x = xOf(plot, event);
      tell(plot, x);
      selected?.setAttribute("x", Math.min(begun, x));
      selected?.setAttribute("width", Math.abs(x - begun));
    });
    plot.addEventListener("pointerup", (event) => {
      if (begun === null) return;
      const ends = [timeAt(begun), timeAt(xOf(plot, event))].sort((a, b) => a - b);
      const dragged = Math.abs(xOf(plot, event) - begun);
      stop();
      if (dragged > near) show(...ends);
    });
    plot.addEventListener("pointercancel", stop);
    plot.addEventListener("dblclick", reset);
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
      event.preventDefault();
      keys[event.key]();
    });
  }

  /* Timelines */
  const tones = {
    OnlinePartition: "good", OfflinePartition: "bad", NewPartition: "warning",
    NonExistentPartition: "plain",
  };
  const lifeOf = (name) => {
    const packed = data.lives[name], changes = [];
    let ms = data.begin;
    for (let n = 2; n < packed.length; n += 4) {
      ms += packed[n];
      const [leader, inSync, state] = packed.slice(n + 1, n + 4);
      changes.push({ ms, leader, inSync, state: data.states[state] });
    }
    return { total: packed[0], marks: packed[1], changes };
  };
  const leaderText = ({ leader }) =>
    leader === null || leader < -1 ? "" : leader < 0 ? "no leader" : `broker ${leader}`;
  const lane = (life, row, textOf, toneOf, heightOf) => {
    const runs = [];
    for (const change of life.changes)
      if (!runs.length || textOf(runs[runs.length - 1]) !== textOf(change)) runs.push(change);
    const drawing = byId("life").querySelector(".drawing"), labels = byId("life").querySelector(".labels");
    runs.forEach((run, n) => {
      const ends = n + 1 < runs.length ? runs[n + 1].ms : data.end, shown = textOf(run);
      if (!shown || ends < data.begin) return;
      const begin = inDrawing(Math.max(run.ms, data.begin)), end = inDrawing(ends);
      const height = heightOf(run) * (lifeRow - 12), foot = (row + 1) * lifeRow;
      const shape = { class: `life ${toneOf(run)} ${n % 2 ? "odd" : ""}`, x: begin, y: foot - height };
      const box = made("rect", { ...shape, width: Math.max(end - begin, 0), height });
      box.append(made("title", {}, `${shown}, ${clock(run.ms)} to ${clock(ends)}`));
      drawing.append(box);
      const at = { class: "label", y: foot - 10, dx: 3, "data-begin": begin, "data-end": end };
      labels.append(made("text", at, shown));
    });
  };
  const draw = (name) => {
    const life = lifeOf(name), figure = byId("life"), plot = figure.querySelector("svg.plot");
    const most = Math.max(1, ...life.changes.map((change) => change.inSync || 0));
    figure.querySelectorAll(".drawing, .labels").forEach((group) => group.replaceChildren());
    plot.dataset.marks = life.marks;
    plot.querySelector("use").setAttribute("href", `#marks-${life.marks}`);
    const all = () => 1, sizeOf = ({ inSync }) => (inSync === null ? "" : String(inSync));
    lane(life, 0, leaderText, ({ leader }) => (leader < 0 ? "bad" : "plain"), all);
    lane(life, 1, sizeOf, () => "plain", ({ inSync }) => Math.max(inSync / most, 0.05));
    lane(life, 2, ({ state }) => state || "", ({ state }) => tones[state] || "plain", all);
    byId("life-title").textContent = `Timeline of ${name} (time in UTC)`;
    const rows = life.changes.map((change) => {
      const row = document.createElement("tr");
      for (const cell of [clock(change.ms), leaderText(change), sizeOf(change), change.state || ""])
        row.appendChild(document.createElement("td")).textContent = cell;
      return row;
    });
    figure.querySelector("tbody").replaceChildren(...rows);
    figure.hidden = false;
    const leftOut = life.total - life.changes.length;
    const count = `${life.total.toLocaleString("en")} changes`;
    byId("life-note").textContent = leftOut ? `${count}, the last ${life.changes.length} are shown` : count;
    show(...view);
  };
  const search = byId("search");
  if (search) {
    const names = Object.keys(data.lives);
    search.closest("p").hidden = false;
    search.addEventListener("input", () => {
      const wanted = search.value.trim();
      const found = wanted ? names.filter((name) => name.includes(wanted)).slice(0, 20) : [];
      byId("found").replaceChildren(...found.map((name) => new Option(name, name)));
      const name = names.includes(wanted) ? wanted : found.length === 1 ? found[0] : null;
      byId("life").hidden = name === null;
      byId("life-note").textContent = !wanted || found.length ? "" : "not on this page";
      if (name !== null) draw(name);
    });
  }
  byId("tools").hidden = false;
  show(...view);
})();
