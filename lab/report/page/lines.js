// Accuracy, loss and consensus distance over rounds, steps, bytes or time.
const AXES = {
  round: { name: "Rounds", label: "rounds", show: count, tip: v => "round " + count(v) },
  step: { name: "Steps", label: "local steps of a node", show: count, tip: v => "step " + count(v) },
  bytes: { name: "Bytes", label: "sent by all nodes", show: bytes, tip: v => bytes(v) + " sent" },
  time: { name: "Time", label: "since training began", show: seconds, tip: v => "after " + seconds(v) },
};
const LINES = [
  { key: "accuracy", title: "of the averaged model", show: quality, error: true },
  { key: "mean", title: "of the nodes, their mean", show: quality, error: true, instead: "accuracy" },
  { key: "worst", title: "of the worst node", show: quality, error: true },
  { key: "loss", title: "Loss of the averaged model", show: plain },
  { key: "train_loss", title: "Loss on the training examples", show: plain, instead: "loss" },
  { key: "consensus", title: "Consensus distance", small: "of the models to their mean, over its norm", show: plain, log: true },
];
const titleOf = line => (line.error ? (DATA.regression ? "R2 " : "Accuracy ") : "") + line.title;
const HEIGHT = 270, MARGIN = { top: 18, right: 14, bottom: 40 };

const axisIsKnown = axis => DATA.cases.some(c => new Set(c.curve[axis].filter(known)).size > 1);

// Curves that end at very different values need a logarithmic axis.
function isWide(axis) {
  const found = extent(DATA.cases.map(c => c.curve[axis].filter(known).pop()).filter(v => v > 0));
  return (axis === "bytes" || axis === "time") && found !== null && found[1] >= 8 * found[0];
}

// What the axis must show: the means, and of the intervals (that of two seeds may be wide) as much again at most.
function lineValues(line, cases) {
  const means = extent(cases.flatMap(c => c.curve[line.key][0])), all = cases.flatMap(c => c.curve[line.key].flat());
  if (!means) return all;
  const room = (means[1] - means[0]) / 2, low = line.log ? means[0] / 3 : means[0] - room, high = line.log ? 3 * means[1] : means[1] + room;
  return all.map(v => (known(v) ? Math.min(line.error && !DATA.regression ? Math.min(1, high) : high, Math.max(line.error && !DATA.regression ? Math.max(0, low) : low, v)) : v));
}

// Runs of real processes measure the averaged model only at the end; then the accuracy of the nodes is drawn.
function linesToDraw() {
  const measured = key => DATA.cases.some(c => c.curve[key][0].filter(known).length > 2);
  return LINES.filter(line => (line.instead ? !measured(line.instead) && measured(line.key) : measured(line.key) || !LINES.some(other => other.instead === line.key && measured(other.key))))
    .filter(line => DATA.cases.some(c => c.curve[line.key][0].filter(v => known(v) && (!line.log || v > 0)).length > 1)); // one point is not a curve
}

function yScale(line, log, shown, room) {
  const asked = log && line.error ? [...targetList(), ...(DATA.central ? [DATA.central[0]] : [])] : [];
  const values = [...lineValues(line, shown), ...asked].filter(v => known(v) && (!log || line.error || v > 0));
  const found = extent(values);
  if (!found) return null;
  const wanted = Math.max(3, Math.round(room / 45));
  if (log && line.error) return errorScale(found[0], found[1]);
  if (log) return logScale(found[0], found[1], wanted, plain);
  if (!line.error) return linearScale(Math.min(0, found[0]), found[1], wanted, plain);
  const [low, high] = found, places = high - low < 0.02 ? 2 : high - low < 0.06 ? 1 : 0;
  return linearScale(low, Math.max(high, low + 0.005), wanted, v => quality(v, places));
}

function xScale(axis, log, shown, room) {
  const found = extent(shown.flatMap(c => c.curve[axis]).filter(v => !log || v > 0));
  if (!found) return null;
  const wanted = Math.max(2, Math.floor(room / 95));
  const show = axis === "time" ? secondsUpTo(found[1]) : AXES[axis].show;
  return log ? logScale(found[0], found[1], wanted, show) : linearScale(found[0], found[1], wanted, show, false);
}

// Consecutive points that can be shown, as lists of [x, y]. A gap in the data is a gap in the line.
function stretches(xs, ys) {
  const all = [];
  let open = null;
  xs.forEach((x, i) => {
    if (!Number.isFinite(x) || !Number.isFinite(ys[i])) {
      open = null;
    } else {
      if (!open) all.push((open = []));
      open.push([x, ys[i]]);
    }
  });
  return all;
}

const pathOf = points => points.map(([x, y], i) => (i ? "L" : "M") + round1(x) + " " + round1(y)).join("");

function curveShapes(c, line, x, y) {
  const index = DATA.cases.indexOf(c), xs = c.curve[state.axis].map(x), [middle, low, high] = c.curve[line.key];
  const group = shape("g", { class: "case", "data-case": index });
  if (low) {
    const bottom = HEIGHT - MARGIN.bottom;
    const inside = (v, i) => (known(v) && Number.isFinite(y(middle[i])) ? Math.min(bottom, Math.max(MARGIN.top, Number.isFinite(y(v)) ? y(v) : bottom)) : NaN);
    for (const upper of stretches(xs, high.map(inside))) {
      const lower = stretches(xs, low.map(inside)).find(s => s[0][0] === upper[0][0] && s.length === upper.length);
      if (lower && upper.length > 1) group.append(shape("path", { class: "band k" + (index % 7), d: pathOf(upper) + "L" + pathOf(lower.reverse()).slice(1) + "Z" }));
    }
  }
  for (const points of stretches(xs, middle.map(y))) {
    if (points.length > 1) group.append(shape("path", { class: "curve " + style(index), d: pathOf(points) }));
    else group.append(shape("circle", { class: "dot k" + (index % 7), cx: round1(points[0][0]), cy: round1(points[0][1]), r: 3.5 }));
  }
  return group;
}

// The place of a moment of the training on the current axis.
function momentOn(c, time) {
  const ts = c.curve.time, xs = c.curve[state.axis];
  for (let i = 1; i < ts.length; i++) {
    if (!known(ts[i - 1]) || !known(ts[i]) || ts[i] < time || ts[i - 1] > time) continue;
    return xs[i - 1] + (ts[i] > ts[i - 1] ? (time - ts[i - 1]) / (ts[i] - ts[i - 1]) : 0) * (xs[i] - xs[i - 1]);
  }
  return NaN;
}

// The events of a single run, as vertical lines; a partition or a stop as wide as its duration.
function eventShapes(x, bottom) {
  const c = DATA.cases[0], group = shape("g", {});
  if (DATA.cases.length > 1) return group;
  for (const event of c.events.filter(e => e.happened !== false && known(e.at)).slice(0, 60)) {
    const from = x(momentOn(c, event.at)), to = known(event.for) ? x(momentOn(c, event.at + event.for)) : NaN;
    if (!Number.isFinite(from)) continue;
    if (Number.isFinite(to)) group.append(shape("rect", { class: "span", x: round1(from), y: MARGIN.top, width: round1(Math.max(1, to - from)), height: bottom - MARGIN.top }));
    group.append(shape("line", { class: "mark", x1: round1(from), x2: round1(from), y1: MARGIN.top, y2: bottom },
      shape("title", {}, eventText(event))));
  }
  return group;
}

function frame(svg, x, y, left, right, bottom, axis) {
  for (const [value, text] of y.scale.ticks) {
    const at = round1(y(value));
    svg.append(shape("line", { class: "rule", x1: left, x2: right, y1: at, y2: at }),
      shape("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, text));
  }
  let free = -Infinity;
  for (const [value, text] of x.scale.ticks) {
    const at = round1(x(value)), half = textWidth(text) / 2, centre = Math.min(at, right - half + 8);
    if (centre - half < free) continue;
    free = centre + half + 8;
    svg.append(shape("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4 }),
      shape("text", { x: round1(centre), y: bottom + 18, "text-anchor": "middle" }, text));
  }
  svg.append(shape("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    shape("text", { x: right, y: bottom + 35, "text-anchor": "end" }, AXES[axis].label));
}

// The target accuracies, and the accuracy of central training.
function targetShapes(line, y, left, right) {
  if (!line.error) return [];
  const lines = targetList().map(a => [a, "target " + shortPercent(a)]);
  if (DATA.central && line.key === "accuracy") lines.push([DATA.central[0], "central training " + quality(DATA.central[0])]);
  let free = -Infinity;
  return lines.sort((a, b) => b[0] - a[0]).flatMap(([value, text]) => {
    const at = round1(y(value)), shapes = [];
    if (!(at >= MARGIN.top - 1 && at <= HEIGHT - MARGIN.bottom + 1)) return [];
    shapes.push(shape("line", { class: "target", x1: left, x2: right, y1: at, y2: at }, shape("title", {}, text)));
    const foot = free < 0 ? at - 5 : at + 13; // the highest label is above its line, where no curve is
    if (foot >= free) shapes.push(shape("text", { class: "aside", x: left + 4, y: foot }, text));
    free = Math.max(free, foot + 13);
    return shapes;
  });
}

function lineFigure(line) {
  const box = make("div", { class: "plot tall" });
  state.logY[line.key] = line.log || (line.error && Math.max(...lineValues(line, DATA.cases).filter(known)) > 0.8);
  const log = toggle("log", state.logY[line.key], pressed => { state.logY[line.key] = pressed; figure.redraw(); },
    { title: line.error ? "Logarithm of what is still wrong" : "Logarithmic scale" });
  const element = make("figure", { class: "card", "data-chart": line.key }, caption(titleOf(line), line.small, log), box);
  const figure = { element, redraw: () => {}, highlight: () => {} };
  function draw(width) {
    const shown = visibleCases(), bottom = HEIGHT - MARGIN.bottom;
    const yFound = yScale(line, state.logY[line.key], shown, bottom), xFound = xScale(state.axis, state.logX, shown, width - 60);
    box.replaceChildren();
    if (!yFound || !xFound) {
      box.append(make("p", { class: "empty" }, shown.length ? "not measured" : "nothing is selected"));
      return;
    }
    const left = Math.ceil(Math.max(...yFound.ticks.map(t => textWidth(t[1])), 20)) + 10, right = width - MARGIN.right;
    const x = value => (known(value) ? left + xFound.place(value) * (right - left) : NaN);
    const y = value => (known(value) ? bottom - yFound.place(value) * (bottom - MARGIN.top) : NaN);
    x.scale = xFound;
    y.scale = yFound;
    const svg = shape("svg", { viewBox: "0 0 " + width + " " + HEIGHT, role: "img", tabindex: 0,
      "aria-label": titleOf(line) + " over " + AXES[state.axis].label + ". Left and right arrow keys read values." });
    frame(svg, x, y, left, right, bottom, state.axis);
    svg.append(eventShapes(x, bottom), ...shown.map(c => curveShapes(c, line, x, y)), ...targetShapes(line, y, left, right));
    box.append(svg);
    figure.highlight(state.focus);
    reader(box, svg, line, shown, x, y, left, right, bottom);
  }
  figure.highlight = focus => {
    for (const group of box.querySelectorAll(".case")) group.classList.toggle("faint", focus !== null && group.dataset.case !== String(focus));
  };
  figure.start = () => { figure.redraw = fitted(box, draw); };
  return figure;
}

// The nearest point of every curve to the pointer, or to the position set by the arrow keys.
function reader(box, svg, line, shown, x, y, left, right, bottom) {
  const mark = shape("g", { visibility: "hidden" }), tip = make("div", { class: "tip", hidden: true, role: "status" });
  svg.append(mark);
  box.append(tip);
  let at = left;

  function nearest(c) {
    let best = null;
    c.curve[state.axis].forEach((value, i) => {
      const px = x(value), py = y(c.curve[line.key][0][i]);
      if (Number.isFinite(px) && Number.isFinite(py) && (!best || Math.abs(px - at) < Math.abs(best.px - at))) best = { c, i, value, px, py };
    });
    return best;
  }
  function show() {
    const found = shown.map(nearest).filter(p => p && Math.abs(p.px - at) < 60).sort((a, b) => a.py - b.py);
    mark.replaceChildren();
    if (!found.length) return hide();
    const closest = found.reduce((a, b) => (Math.abs(a.px - at) <= Math.abs(b.px - at) ? a : b));
    mark.append(shape("line", { class: "cross", x1: round1(closest.px), x2: round1(closest.px), y1: MARGIN.top, y2: bottom }));
    for (const p of found) mark.append(shape("circle", { class: "dot k" + (DATA.cases.indexOf(p.c) % 7), cx: round1(p.px), cy: round1(p.py), r: 4 }));
    const rows = found.slice(0, 10).map(p => {
      const [middle, low, high] = p.c.curve[line.key];
      const range = low && line.show(low[p.i]) !== line.show(high[p.i]) ? " (" + line.show(low[p.i]) + " \u2013 " + line.show(high[p.i]) + ")" : "";
      return make("div", {}, make("span", {}, make("i", { class: "k" + (DATA.cases.indexOf(p.c) % 7) }), p.c.label), make("em", {}, line.show(middle[p.i]) + range));
    });
    if (found.length > 10) rows.push(make("span", {}, "and " + (found.length - 10) + " more"));
    tip.replaceChildren(make("b", {}, AXES[state.axis].tip(closest.value)), ...rows);
    tip.hidden = false;
    mark.setAttribute("visibility", "visible");
    const space = box.clientWidth - tip.offsetWidth, beside = closest.px + 14;
    tip.style.left = Math.max(0, beside > space ? Math.min(space, closest.px - tip.offsetWidth - 14) : beside) + "px";
    tip.style.top = Math.max(0, Math.min(HEIGHT - tip.offsetHeight - 44, found[0].py - 12)) + "px";
  }
  function hide() {
    tip.hidden = true;
    mark.setAttribute("visibility", "hidden");
  }
  svg.addEventListener("pointermove", event => {
    at = event.clientX - svg.getBoundingClientRect().left;
    if (at < left - 8 || at > right + 8) hide();
    else show();
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    at = Math.max(left, Math.min(right, at + step * (right - left) / 40));
    show();
  });
}
