// The initial state of the page, which its buttons change.
const DATA = JSON.parse(byId("data").textContent);
const shared = Object.fromEntries(DATA.shared);
const SHOWN_FIRST = 12;

// For runs of real processes the averaged model is measured only at the end: the time at which it reached a target is
// unknown, but that of the worst node is known.
const state = { axis: "round", logX: false, logY: {}, logBars: false, hidden: new Set(), focus: null, target: null, who: shared.kind === "run" ? "worst" : "averaged", sort: { name: null, direction: 1 } };
let lineFigures = [], barFigures = [];

const visibleCases = () => DATA.cases.filter((c, i) => !state.hidden.has(i));
const best = (cases, number, pick) => cases.filter(c => known(number(c))).reduce((a, b) => (a === null || pick(number(a), number(b)) !== number(a) ? b : a), null);

function setVisible(index, shown) {
  if (shown) state.hidden.delete(index);
  else state.hidden.add(index);
  const buttons = [...byId("legend").children];
  if (buttons[index]) {
    buttons[index].setAttribute("aria-pressed", String(shown));
    buttons[index].hidden = buttons[index].hidden && !shown;
  }
  for (const figure of lineFigures) figure.redraw();
}

function setFocus(index) {
  state.focus = index !== null && state.hidden.has(index) ? null : index;
  for (const figure of lineFigures) figure.highlight(state.focus);
}

function headline() {
  const kind = { sim: "Simulation in virtual time", run: "Run of real processes", collect: "Nodes of a running cluster" }[shared.kind] || "Experiment";
  const seeds = Math.max(...DATA.cases.map(c => c.runs));
  const runs = DATA.cases.reduce((sum, c) => sum + c.runs, 0);
  byId("kind").textContent = ["p2pml", kind, shared.engine ? shared.engine + " engine" : null, DATA.sweep ? count(runs) + " runs" : null].filter(Boolean).join("  \u00b7  ");
  byId("title").textContent = DATA.title;
  document.title = DATA.title + " \u2013 p2pml";
  const partition = shared["data.partition"] === "dirichlet" && shared["data.alpha"] !== undefined ? "Dirichlet " + shared["data.alpha"] : shared["data.partition"];
  const steps = shared["train.steps"], batch = shared["train.batch"];
  const parts = [
    shared.nodes ? count(shared.nodes) + " nodes" : null, shared["topology.kind"] || shared.topology, shared.method,
    shared.model ? shared.model + (shared.parameters ? ", " + count(shared.parameters) + " parameters" : "") : null,
    shared["data.kind"] ? shared["data.kind"] + (partition ? ", " + partition : "") : null,
    known(steps) ? count(steps) + " steps a node" + (known(batch) ? " of " + count(batch) + " examples" : "") : null,
    seeds > 1 ? seeds + " seeds" : null,
  ];
  byId("lead").textContent = parts.filter(Boolean).join("  \u00b7  ");
  byId("notes").hidden = !DATA.notes.length;
  byId("notes").append(...DATA.notes.map(text => make("li", {}, text)));
}

const tile = (key, value, small) => make("div", { class: "tile" }, make("span", { class: "k" }, key), make("span", { class: "v" }, value), make("span", { class: "s" }, small || "\u00a0"));

// The duration of the training, and the total on this machine with preparation, baselines and measurements.
function timeOf(v) {
  const here = v.wall_seconds ? seconds(mean(v.wall_seconds)) : null;
  if (shared.kind === "sim") return ["virtual time", seconds(mean(v.seconds)), here ? "computed in " + here : ""];
  return ["time", seconds(mean(v.seconds)), here ? here + " with start and baselines" : ""];
}

function tilesOfOne(c) {
  const v = c.values, target = targetList().filter(a => isReached(costOf(c, a, "bytes"))).pop();
  const list = [
    tile(qualityName() + ", averaged model", quality(mean(v.accuracy)), (v.rmse ? "RMSE " + plain(mean(v.rmse)) + ", " : "") + (DATA.central ? "central training " + quality(DATA.central[0]) : interval(v.accuracy, quality))),
    tile(qualityName() + ", worst node", quality(mean(v.worst)), v.best ? "best node " + quality(mean(v.best)) : ""),
    tile("sent by all nodes", bytes(mean(v.bytes)), v.dense_over_sent ? "dense would be " + times(mean(v.dense_over_sent)) : ""),
    tile(...timeOf(v)),
    tile("consensus distance", plain(mean(v.consensus)), "of the models to their mean"),
  ];
  if (target !== undefined) list.splice(3, 0, tile("bytes to " + shortPercent(target), bytes(mean(costOf(c, target, "bytes").band)), "after " + seconds(mean(costOf(c, target, "time").band)) + (state.who === "worst" ? ", the worst node" : "")));
  return list;
}

function tilesOfMany() {
  const list = [], accuracy = best(DATA.cases, c => mean(c.values.accuracy), Math.max), worst = best(DATA.cases, c => mean(c.values.worst), Math.max);
  if (accuracy) list.push(tile("highest " + qualityName(), quality(mean(accuracy.values.accuracy)), accuracy.label));
  if (worst) list.push(tile("best worst node", quality(mean(worst.values.worst)), worst.label));
  const cost = (c, what) => { const found = costOf(c, state.target, what); return isReached(found) ? found.band[0] : null; };
  for (const [what, title, show] of [["bytes", "fewest bytes to ", bytes], ["time", "shortest time to ", seconds]]) {
    const found = best(DATA.cases, c => cost(c, what), Math.min);
    if (found) list.push(tile(title + shortPercent(state.target), show(cost(found, what)), found.label));
  }
  const close = best(DATA.cases, c => mean(c.values.consensus), Math.min);
  if (list.length < 4 && close) list.push(tile("smallest consensus distance", plain(mean(close.values.consensus)), close.label));
  return list;
}

function showTiles() {
  const list = DATA.cases.length === 1 ? tilesOfOne(DATA.cases[0]) : tilesOfMany();
  byId("tiles").dataset.count = list.length;
  byId("tiles").replaceChildren(...list);
}

// With many cases, the figures show first those with the best accuracy for the lowest cost.
function chooseVisible() {
  if (DATA.cases.length <= SHOWN_FIRST) return;
  const rank = c => { const cost = state.target === null ? null : costOf(c, state.target, "bytes"); return [isReached(cost) ? cost.band[0] : Infinity, -(mean(c.values.accuracy) || 0)]; };
  const ranked = DATA.cases.map((c, i) => [rank(c), i]).sort(([a], [b]) => (a[0] === b[0] ? 0 : a[0] - b[0]) || a[1] - b[1]);
  for (const [, i] of ranked.slice(SHOWN_FIRST)) state.hidden.add(i);
}

function showLegend() {
  const legend = byId("legend");
  if (DATA.cases.length < 2) {
    legend.hidden = true;
    return;
  }
  legend.append(...DATA.cases.map((c, i) => {
    const button = toggle("", !state.hidden.has(i), shown => { setVisible(i, shown); drawTable(); },
      { onpointerenter: () => setFocus(i), onpointerleave: () => setFocus(null), onfocus: () => setFocus(i), onblur: () => setFocus(null) });
    button.append(swatch(i), c.label);
    button.hidden = state.hidden.has(i); // with many cases: in the table, where they can be switched on
    return button;
  }));
  if (state.hidden.size) legend.append(make("span", { class: "hint" }, "the other " + state.hidden.size + " can be switched on in the table"));
}

function showCurves() {
  const axes = Object.keys(AXES).filter(axisIsKnown);
  byId("curves").hidden = !axes.length;
  if (!axes.length) return;
  state.axis = DATA.cases.length > 1 && axes.includes("bytes") ? "bytes" : axes[0];
  state.logX = isWide(state.axis);
  const log = toggle("log x", state.logX, pressed => { state.logX = pressed; lineFigures.forEach(f => f.redraw()); }, { class: "switch" });
  const choose = axis => {
    state.axis = axis;
    state.logX = isWide(axis);
    log.setAttribute("aria-pressed", String(state.logX));
    lineFigures.forEach(f => f.redraw());
  };
  byId("curve-controls").append(segments("over", axes.map(axis => [axis, AXES[axis].name]), state.axis, choose), log);
  showLegend();
  lineFigures = linesToDraw().map(lineFigure);
  byId("line-figures").append(...lineFigures.map(f => f.element));
  lineFigures.forEach(f => f.start());
}

function showTargets() {
  const targets = targetList();
  byId("targets").hidden = !targets.length;
  if (!targets.length) return;
  const again = () => { showTiles(); barFigures.forEach(f => f.redraw()); drawTable(); };
  byId("target-controls").hidden = DATA.cases.length === 1;
  byId("target-controls").append(
    segments(qualityName(), targets.map(a => [a, shortPercent(a)]), state.target, a => { state.target = a; again(); }),
    segments("of", [["averaged", "Averaged model"], ["worst", "Worst node"]], state.who, who => { state.who = who; again(); }),
    toggle("log", false, pressed => { state.logBars = pressed; barFigures.forEach(f => f.redraw()); }, { class: "switch" }));
  barFigures = BARS.filter(bar => DATA.cases.some(c => c.targets.length)).map(barFigure);
  byId("bar-figures").append(...barFigures.map(f => f.element));
  barFigures.forEach(f => f.start());
}

function showSettings() {
  const pair = (key, value) => make("div", {}, make("dt", {}, key), make("dd", {}, setting(value)));
  byId("varied").textContent = DATA.varied.length ? "The runs differ in " + DATA.varied.join(", ") + "; everything else is the same." : "";
  byId("varied").hidden = !DATA.varied.length;
  byId("shared").append(...DATA.shared.filter(([key]) => key !== "version" && !DATA.varied.includes(key)).map(([key, value]) => pair(key, value)));
  byId("settings").hidden = !DATA.shared.length && !DATA.varied.length;
  byId("made").textContent = "Made by p2pml" + (shared.version ? " " + shared.version : "") + ". This page is one file and needs no network.";
  byId("table-note").textContent = statistics();
  byId("curve-note").textContent = seedsText() ? "Means over the seeds (" + seedsText() + "); bands: 95% confidence interval of the mean." : "";
  byId("bar-note").textContent = seedsText() ? "Means over the seeds (" + seedsText() + ") and their 95% confidence interval. A case counts if all its seeds reach the accuracy; \u201c1 of 5 seeds\u201d: the others did not." : "";
}

// "n = 5", or "n = 3 to 5"; "" if no case has two.
function seedsText() {
  const found = extent(DATA.cases.map(c => c.complete).filter(n => n > 0));
  return found && found[1] > 1 ? "n = " + (found[0] < found[1] ? found[0] + " to " + found[1] : found[1]) : "";
}

function statistics() {
  if (!seedsText()) return "";
  const reference = DATA.cases[DATA.reference], paired = DATA.cases.some(c => c.against.accuracy && c.against.accuracy[3] > 1);
  return "Means over the seeds (" + seedsText() + "); \u00b1: half of the 95% confidence interval of the mean (Student\u2019s t)." +
    (paired ? " Differences are to " + reference.label + ", paired by seed, in " + (DATA.regression ? "R2" : "percentage points") + "." : "") +
    (targetList().length ? " \u201c1 of 5\u201d: only so many of the seeds reached it." : "");
}

// The highest target that a case reached with all its seeds, else with some, else the lowest.
function chooseTarget() {
  const targets = targetList(), by = test => targets.filter(a => DATA.cases.some(c => test(costOf(c, a, "bytes")))).pop();
  state.target = by(isReached) ?? by(cost => cost && cost.band) ?? targets[0] ?? null;
}

headline();
chooseTarget();
chooseVisible();
showTiles();
showCurves();
showTargets();
drawTable();
showEvents();
showGraphs();
showSettings();
