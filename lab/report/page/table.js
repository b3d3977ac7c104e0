// The table: one row per case, sortable columns. A column has a number (for sorting), a text and the direction of better.
const column = (name, value, show, best, title) => ({ name, show, best, title, band: c => c.values[value], number: c => mean(c.values[value]), value });

// The difference to the case with the highest mean accuracy, seed by seed.
const against = (name, value) => ({
  name, show: signed, best: null, title: "less that of " + (DATA.cases[DATA.reference] || {}).label + ", over the seeds that both have; " + (DATA.regression ? "R2" : "percentage points"),
  band: c => c.against[value], number: c => mean(c.against[value]), pairs: true,
});

function targetColumn(accuracy, what, show) {
  const short = shortPercent(accuracy);
  return {
    name: what + " to " + short, show, best: Math.min, title: "until " + (state.who === "worst" ? "the worst node" : "the averaged model") + " reaches " + short,
    band: c => (costOf(c, accuracy, what) || {}).band,
    number: c => { const cost = costOf(c, accuracy, what); return cost ? (isReached(cost) ? cost.band[0] : Infinity) : null; },
    of: c => (costOf(c, accuracy, what) || {}).of,
  };
}

function columns() {
  const targets = targetList().flatMap(a => [targetColumn(a, "bytes", bytes), targetColumn(a, "time", seconds)]);
  const always = [column(qualityName(), "accuracy", quality, Math.max, "of the averaged model"), column("worst node", "worst", quality, Math.max, qualityName()),
    column("bytes", "bytes", bytes, Math.min, "sent by all nodes"), column("time", "seconds", seconds, Math.min, "virtual in a simulation")];
  const sometimes = [column("consensus", "consensus", plain, Math.min, "RMS distance of the models to their mean, over its norm"), column("loss", "loss", plain, Math.min, "of the averaged model"), column("worst loss", "worst_loss", plain, Math.min, "the highest loss of a node"),
    column("RMSE", "rmse", plain, Math.min, "of the averaged model, in the target's units"),
    column("dense / sent", "dense_over_sent", times, Math.max, "bytes of the same exchanges in fp32, over what was sent"),
    column("detected", "detected", seconds, Math.min, "median time until the others knew of a failure"), column("rewired", "rewired", seconds, Math.min, "median time until the graph was closed"),
    column("false deaths", "false_deaths", count, Math.min, "declared dead, but alive"), column("round", "round", count, null, "of the cluster: reached, also with an adopted model"), column("step", "step", count, null, "of the schedule, at that round"),
    column("own steps", "own_steps", count, null, "computed by a node itself, mean"), column("fewest own steps", "own_steps_least", count, null, "computed by the node that computed fewest"), column("own exchanges", "exchanges", count, null, "made by a node, mean"), column("wall clock", "wall_seconds", seconds, null, "what the run took here")];
  const paired = DATA.cases.some(c => c.against.accuracy && c.against.accuracy[3] > 1) ? [against("difference", "accuracy"), against("difference, worst", "worst")] : [];
  return [...always.slice(0, 2), ...paired, ...always.slice(2), ...targets, ...sometimes.filter(k => DATA.cases.some(c => known(k.number(c))))];
}

// Text that begins with a number sorts as one; 1/32 is a number, too.
function settingNumber(text) {
  const match = /^(-?[0-9.]+(?:e-?[0-9]+)?)(?:\/([0-9.]+))?/.exec(String(text));
  return match ? Number(match[1]) / Number(match[2] || 1) : null;
}

function nameColumns() {
  if (!DATA.varied.length) return [{ name: "run", text: c => c.label }];
  return DATA.varied.map(key => ({ name: key, text: c => setting(c.settings[key]) }));
}

function order(rows, column, direction) {
  const keyed = rows.map((row, i) => ({ row, i, key: column.text ? settingNumber(column.text(row)) : column.number(row), text: column.text ? column.text(row) : "" }));
  const absent = key => key === null || key === undefined || Number.isNaN(key);
  keyed.sort((a, b) => {
    if (column.text && (absent(a.key) || absent(b.key))) return direction * a.text.localeCompare(b.text) || a.i - b.i;
    if (absent(a.key) || absent(b.key)) return absent(a.key) - absent(b.key) || a.i - b.i;
    if (a.key === b.key) return a.i - b.i;
    if (a.key === Infinity || b.key === Infinity) return a.key === Infinity ? 1 : -1;
    return direction * (a.key - b.key);
  });
  return keyed.map(k => k.row);
}

function valueCell(c, column, best) {
  const number = column.number(c), band = column.band(c);
  if (number === Infinity) return make("td", {}, make("span", { class: "never" }, band ? band[3] + " of " + column.of(c) : "never"));
  if (!known(number)) return make("td", {}, "-");
  const small = [interval(band, column.pairs ? v => signed(v).replace("+", "") : column.show), column.pairs && band[3] < c.complete ? band[3] + " pairs" : ""].filter(Boolean).join(", ");
  return make("td", { class: DATA.cases.length > 1 && number === best ? "best" : null }, column.show(number), small ? make("small", {}, small) : null);
}

function nameCells(c, names) {
  const index = DATA.cases.indexOf(c);
  const button = toggle("", !state.hidden.has(index), shown => setVisible(index, shown), { class: "swatch", "aria-label": "show " + c.label + " in the figures" });
  button.append(swatch(index));
  const first = make("th", { scope: "row" }, make("div", { class: "named" }, button, make("span", {}, names[0].text(c))));
  return [first, ...names.slice(1).map(name => make("td", { class: "text" }, name.text(c)))];
}

function headCell(column, sort) {
  const active = state.sort.name === column.name;
  return make("th", { scope: "col", class: column.text ? "text" : null, title: column.title, "aria-sort": active ? (state.sort.direction > 0 ? "ascending" : "descending") : null },
    make("button", { type: "button", onclick: () => sort(column) }, column.name));
}

// The best number of a column; none if all are the same.
function bestOf(column) {
  const found = extent(DATA.cases.map(column.number));
  return found && found[0] < found[1] ? column.best(...found) : NaN;
}

function drawTable() {
  const names = nameColumns(), values = columns(), all = [...names, ...values];
  const seeds = DATA.cases.some(c => c.runs > 1 || c.complete !== c.runs);
  if (seeds) all.splice(names.length, 0, { name: "seeds", number: c => c.complete, count: true });
  const sortBy = all.find(column => column.name === state.sort.name);
  const rows = sortBy ? order(DATA.cases, sortBy, state.sort.direction) : DATA.cases;
  const sort = chosen => {
    const again = state.sort.name === chosen.name;
    state.sort = { name: chosen.name, direction: again ? -state.sort.direction : chosen.best === Math.max ? -1 : 1 };
    drawTable();
    [...byId("table").querySelectorAll("thead button")].find(b => b.textContent === chosen.name).focus();
  };
  const best = new Map(values.filter(v => v.best).map(v => [v, bestOf(v)]));
  const body = rows.map(c => make("tr", {}, ...nameCells(c, names),
    ...(seeds ? [make("td", {}, c.complete === c.runs ? count(c.runs) : c.complete + " of " + c.runs)] : []),
    ...values.map(v => valueCell(c, v, best.get(v)))));
  byId("table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...all.map(column => headCell(column, sort)))), make("tbody", {}, ...body)));
}
