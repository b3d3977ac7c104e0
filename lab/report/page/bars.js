// Bytes and time to an accuracy, one bar per case: the lowest first. A case counts if all its seeds reached it; the others
// are at the end, grey, without a bar: a mean over the seeds that happened to reach it says nothing about the rest.
const BARS = [
  { key: "bytes", title: "Bytes sent by all nodes", show: bytes },
  { key: "time", title: "Time", show: seconds },
];
const BARS_MOST = 20;

const shortPercent = accuracy => quality(accuracy, Math.abs(accuracy * 100 - Math.round(accuracy * 100)) > 1e-9 ? 1 : 0);
const targetOf = (c, accuracy) => c.targets.find(t => t.accuracy === accuracy);
const targetList = () => [...new Set(DATA.cases.flatMap(c => c.targets.map(t => t.accuracy)))].sort((a, b) => a - b);

// The cost of a case: {band, of}; band null: never reached. null: not measured.
function costOf(c, accuracy, what, who = state.who) {
  const target = targetOf(c, accuracy);
  return target && target.of ? { band: target[who + "_" + what], of: target.of } : null;
}

const isReached = cost => Boolean(cost && cost.band && cost.band[3] >= cost.of);

// For a single case: every target, of the averaged model if its curve is known, and of the worst node.
function costsOfOne(c, what) {
  const known = [["averaged", "averaged model"], ["worst", "worst node"]].filter(([who]) => who === "worst" || shared.kind !== "run");
  const rows = targetList().flatMap(accuracy => known.map(([who, name], index) =>
    ({ label: shortPercent(accuracy) + ", " + name, index, cost: costOf(c, accuracy, what, who) })));
  return rows.filter(row => row.cost);
}

function sortedCosts(what) {
  if (DATA.cases.length === 1) return costsOfOne(DATA.cases[0], what);
  const all = DATA.cases.map((c, index) => ({ label: c.label, index, cost: costOf(c, state.target, what) })).filter(row => row.cost);
  const place = cost => (isReached(cost) ? [0, cost.band[0]] : [1, cost.band ? -cost.band[3] : 0]);
  return all.sort((a, b) => place(a.cost)[0] - place(b.cost)[0] || place(a.cost)[1] - place(b.cost)[1] || a.index - b.index);
}

function barRow(row, bar, top, layout, scale, least) {
  const { band, of } = row.cost, name = shorten(row.label, layout.above ? layout.width - 8 : layout.left - 12);
  const group = shape("g", { class: "row" }, shape("title", {}, row.label));
  const y = top + (layout.above ? 18 : 5);
  group.append(shape("text", { class: "strong", x: layout.above ? 0 : layout.left - 10, y: layout.above ? top + 12 : y + 13, "text-anchor": layout.above ? "start" : "end" }, name));
  if (!isReached(row.cost)) {
    group.classList.add("aside");
    group.append(shape("text", { class: "never", x: layout.left, y: y + 13 }, band ? band[3] + " of " + of + " seeds" : "never"));
    return group;
  }
  const room = layout.width - layout.left - layout.right, length = value => Math.max(2, Math.min(room, room * scale(value)));
  group.append(shape("rect", { class: "bar k" + (row.index % 7), x: layout.left, y, width: round1(length(band[0])), height: 17, rx: 3 }));
  if (band[4] > 0) group.append(shape("line", { class: "whisker", x1: round1(layout.left + length(endOf(band, -1))), x2: round1(layout.left + length(endOf(band, 1))), y1: y + 8.5, y2: y + 8.5 }));
  const notes = [interval(band, bar.show), band[0] > least * 1.005 ? times(band[0] / least) : ""].filter(Boolean).join(", ");
  const text = shape("text", { class: "strong", x: round1(layout.left + length(endOf(band, 1)) + 8), y: y + 13 }, bar.show(band[0]));
  if (notes) text.append(shape("tspan", { dx: 7, "fill-opacity": 0.65 }, notes));
  group.append(text);
  return group;
}

function drawBars(box, bar, width) {
  const all = sortedCosts(bar.key), rows = all.slice(0, BARS_MOST);
  const bands = rows.filter(r => isReached(r.cost)).map(r => r.cost.band);
  const longestBar = Math.max(...bands.map(b => b[0])); // the interval of two seeds may be wide: it is cut
  const most = Math.max(...bands.map(b => Math.min(endOf(b, 1), 1.5 * longestBar))), lows = bands.map(b => b[0]);
  const least = DATA.cases.length > 1 && bands.length ? bands[0][0] : Infinity;
  const longest = Math.max(...rows.map(r => textWidth(r.label, 12.5)), 0);
  const layout = { width, above: width < 430 || longest > width * 0.42 };
  layout.left = layout.above ? 0 : Math.min(longest, width * 0.42) + 14;
  layout.right = bands.some(b => b[4] > 0) ? 190 : 125;
  const floor = Math.log10(Math.min(...lows)) - 0.4;
  const scale = state.logBars ? value => (Math.log10(Math.max(value, 1e-12)) - floor) / (Math.log10(most) - floor) : value => value / most;
  const height = layout.above ? 44 : 28;
  box.replaceChildren();
  if (!rows.length) {
    box.append(make("p", { class: "empty" }, "no target was asked for"));
    return;
  }
  const svg = shape("svg", { viewBox: "0 0 " + width + " " + (rows.length * height + 4), role: "img", "aria-label": bar.title + " to " + quality(state.target) });
  svg.style.height = rows.length * height + 4 + "px";
  rows.forEach((row, i) => svg.append(barRow(row, bar, i * height, layout, scale, least)));
  box.append(svg);
  if (all.length > rows.length) box.append(make("p", { class: "fine" }, "and " + (all.length - rows.length) + " more in the table"));
}

function barFigure(bar) {
  const box = make("div", { class: "plot" }), title = make("span", {});
  const element = make("figure", { class: "card", "data-chart": "to-" + bar.key }, make("figcaption", {}, title), box);
  const figure = { element, redraw: () => {} };
  figure.start = () => {
    figure.redraw = fitted(box, width => {
      title.textContent = DATA.cases.length === 1 ? bar.title + (DATA.regression ? " until an R2 is reached" : " until an accuracy is reached") : bar.title + " until " + (state.who === "worst" ? "the worst node" : "the averaged model") + " reaches " + shortPercent(state.target);
      drawBars(box, bar, width);
    });
  };
  return figure;
}
