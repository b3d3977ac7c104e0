// The events, when nodes noticed each, and when the graph was closed.
const EVENT_WORDS = { kill: "killed", stop: "stopped", start: "started", leave: "left", partition: "cut apart" };

function eventText(event) {
  const who = event.node || (Array.isArray(event.groups) ? event.groups.map(g => g.length).join(" and ") + " nodes" : "");
  return seconds(event.at) + "  " + who + " " + (EVENT_WORDS[event.event] || event.event || "");
}

const medianOf = (event, key) => (event[key] && known(event[key].median) ? event[key].median : null);

// For one run a row per event; otherwise a row per case, with the dots of all its events.
function eventRows() {
  const cases = DATA.cases.filter(c => c.events.length);
  const groups = cases.length === 1 ? cases[0].events.map(e => ({ label: eventText(e), events: [e] })) : cases.map(c => ({ label: c.label, events: c.events }));
  return groups.filter(g => g.events.some(e => medianOf(e, "detected") !== null || medianOf(e, "rewired") !== null)).slice(0, 30);
}

function eventDot(event, key, x, y) {
  const at = medianOf(event, key);
  if (at === null) return null;
  const text = eventText(event) + ": " + (key === "detected" ? "known" : "closed") + " after " + seconds(at) + " (median of " + setting(event[key].seen) + " of " + setting(event[key].of) + ")";
  return shape("circle", { class: key === "detected" ? "seen" : "closed", cx: round1(x(at)), cy: y, r: key === "detected" ? 4.5 : 6.5 }, shape("title", {}, text));
}

function drawEvents(box, width) {
  const rows = eventRows(), most = Math.max(...rows.flatMap(r => r.events.flatMap(e => [medianOf(e, "detected"), medianOf(e, "rewired")])));
  const longest = Math.max(...rows.map(r => textWidth(r.label, 12.5)), 0), above = width < 430, left = above ? 8 : Math.min(longest, width * 0.4) + 18;
  const height = above ? 40 : 26, bottom = rows.length * height + 6, scale = linearScale(0, most, Math.max(2, Math.floor((width - left) / 90)), secondsUpTo(most));
  const x = value => left + scale.place(value) * (width - left - 20);
  const svg = shape("svg", { viewBox: "0 0 " + width + " " + (bottom + 42), role: "img", "aria-label": "Seconds from a failure until it was known and the graph was closed" });
  svg.style.height = bottom + 42 + "px";
  for (const [value, text] of scale.ticks)
    svg.append(shape("line", { class: "rule", x1: round1(x(value)), x2: round1(x(value)), y1: 0, y2: bottom }), shape("text", { x: round1(x(value)), y: bottom + 17, "text-anchor": "middle" }, text));
  rows.forEach((row, i) => {
    const y = i * height + (above ? 28 : 14);
    svg.append(shape("text", { class: "strong", x: above ? 0 : left - 14, y: above ? y - 14 : y + 4, "text-anchor": above ? "start" : "end" }, shorten(row.label, above ? width : left - 14)));
    for (const event of row.events) svg.append(...[eventDot(event, "detected", x, y), eventDot(event, "rewired", x, y)].filter(Boolean));
  });
  svg.append(shape("text", { x: width - 20, y: bottom + 36, "text-anchor": "end" }, "since it happened"));
  box.replaceChildren(svg);
}

function timesCell(times) {
  if (!times || !known(times.median)) return make("td", {}, "-");
  return make("td", {}, seconds(times.median), make("small", {}, setting(times.seen) + " of " + setting(times.of) + ", last " + seconds(times.last)));
}

function eventTable() {
  const several = DATA.cases.filter(c => c.events.length).length > 1, seeds = DATA.cases.some(c => c.complete > 1);
  const head = ["event", ...(several ? ["run"] : []), ...(seeds ? ["seed"] : []), "known after", "graph closed after", "recovered after", qualityName() + " lost"];
  const rows = DATA.cases.flatMap(c => c.events.map(e => make("tr", {}, make("th", { scope: "row" }, eventText(e), e.instead ? make("small", {}, " " + e.instead) : null),
    ...(several ? [make("td", { class: "text" }, c.label)] : []), ...(seeds ? [make("td", {}, setting(e.seed))] : []), timesCell(e.detected), timesCell(e.rewired), timesCell(e.recovered),
    make("td", {}, e.accuracy && known(e.accuracy.cost) ? (e.accuracy.cost > 0 ? quality(e.accuracy.cost, 2) : "nothing") : "-"))));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head.map(text => make("th", { scope: "col", class: text === "run" ? "text" : null }, text)))), make("tbody", {}, ...rows));
}

function showEvents() {
  const cases = DATA.cases.filter(c => c.events.length);
  byId("events").hidden = !cases.length;
  if (!cases.length) return;
  const box = make("div", { class: "plot" }), figure = byId("event-figure");
  const key = (kind, text) => make("small", { class: "named" }, shape("svg", { width: 16, height: 16, "aria-hidden": "true" }, shape("circle", { class: kind, cx: 8, cy: 8, r: kind === "seen" ? 4.5 : 6.5 })), text);
  figure.hidden = !eventRows().length;
  figure.append(make("figcaption", {}, make("span", {}, "Median time until the others knew, and closed the graph"), make("span", { class: "named" }, key("seen", "known"), key("closed", "closed"))), box);
  if (!figure.hidden) fitted(box, width => drawEvents(box, width));
  byId("event-table").append(eventTable());
  byId("event-details").open = cases.length === 1 && cases[0].events.length <= 12;
  const more = cases.reduce((sum, c) => sum + c.more_events, 0);
  if (more) byId("event-details").append(make("p", { class: "fine" }, "and " + count(more) + " more, in summary.json"));
}
