'use strict';
// Shows /status once a second and /history every other time. Text goes into the page through textContent only, so that
// a peer's name is never markup.

const $ = id => document.getElementById(id);
const known = v => v !== null && v !== undefined;
const num = (v, digits) => known(v) ? Number(v).toFixed(digits) : '–';
const count = v => known(v) ? Number(v).toLocaleString('en-US') : '–';
const percent = v => known(v) ? num(100 * v, 2) + '%' : '–';
const plural = (n, word) => count(n) + ' ' + word + (n === 1 ? '' : 's');
const quantity = v => known(v) ? Number(v.toPrecision(4)).toLocaleString('en-US', {maximumSignificantDigits: 4}) : '–';
const rate = v => known(v) ? count(Number(v < 10 ? v.toPrecision(2) : v.toFixed(0))) : '–';

function bytes(v) {
  if (!known(v)) return '–';
  let unit = 0;
  while (v >= 999.5 && unit < 5) { v /= 1000; unit++; }
  return Number(v.toPrecision(3)) + ' ' + ['B', 'kB', 'MB', 'GB', 'TB', 'PB'][unit];
}

function span(v) {
  if (!known(v)) return '–';
  const s = Math.round(v);
  if (s < 120) return s + ' s';
  if (s < 7200) return Math.floor(s / 60) + ' min ' + s % 60 + ' s';
  if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor(s / 60) % 60 + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s / 3600) % 24 + ' h';
}

function element(name, text, attributes) {
  const e = document.createElement(name);
  if (known(text)) e.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) e.setAttribute(key, value);
  return e;
}

// -- condition

const conditions = { // tone, mark and headline
  fine: ['good', '✓', 'All is well'],
  finished: ['good', '✓', 'Training is done'],
  waiting: ['waiting', '…', 'Waiting'],
  copied: ['waiting', '…', 'Done, with another node\'s model'],
  apart: ['bad', '!', 'Done, but apart from the others'],
  edge_down: ['bad', '!', 'A neighbour is missing'],
  stalled: ['bad', '!', 'Training has stalled'],
  minority: ['bad', '!', 'Many nodes are missing'],
  alone: ['bad', '!', 'This node is alone'],
  refused: ['bad', '!', 'A node was refused'],
  diverged: ['bad', '!', 'The loss is far above what it was'],
  not_finite: ['bad', '!', 'The model diverges'],
  disk_full: ['bad', '!', 'The disk is full or cannot be written'],
  silent: ['bad', '!', 'No answer from this node'],
};

function banner(condition, sentence) {
  const [tone, mark, headline] = conditions[condition] || ['bad', '!', condition];
  $('banner').className = tone;
  $('mark').textContent = mark;
  if ($('condition').textContent !== headline) $('condition').textContent = headline;
  if ($('sentence').textContent !== sentence) $('sentence').textContent = sentence;
}

function settings(list) {
  $('settings').hidden = !list.length;
  $('unfit').replaceChildren(...list.flatMap(({key, text}) => [element('dt', key), element('dd', text)]));
}

// -- time left

function way(s) {
  const part = known(s.steps) && s.steps > 0 ? Math.min(1, s.step / s.steps) : null;
  $('track').hidden = part === null;
  $('done').style.width = 100 * (part || 0) + '%';
  $('track').setAttribute('aria-valuenow', Math.round(100 * (part || 0)));
  $('steps').textContent = 'step ' + count(s.step) + (part === null ? ', trains until it is stopped' :
    ' of ' + count(s.steps) + ' (' + num(100 * part, 1) + '%)');
  $('own').textContent = 'own work of this process: ' + count(s.own_steps) + ' steps' +
    (known(s.own_examples) ? ' of ' + count(s.own_examples) + ' examples' : '') + ', ' + count(s.exchanges) + ' exchanges';
  $('adopted').hidden = !s.adopted;
  $('adopted').textContent = s.adopted ? 'This node ' + s.adopted.text + '.' : '';
  $('left').textContent = part === null ? '' : s.left_s === 0 ? 'all steps are done' :
    known(s.left_s) ? 'about ' + span(s.left_s) + ' left' : 'time left: not known yet';
}

// -- the tiles

let curve = null; // the latest /history

// The loss compared with that of a minute ago, or of the beginning.
function trend() {
  if (!curve || curve.loss.length < 4) return '';
  const last = curve.loss.length - 1;
  let then = curve.at.findIndex(at => at < 60);
  then = then < 1 ? 0 : then;
  while (then < last && !known(curve.loss[then])) then++;
  if (last - then < 3) return '';
  const change = curve.loss[last] / curve.loss[then] - 1;
  const since = span(Math.max(1, curve.at[then] - curve.at[last]));
  return change < -0.005 ? 'down ' + num(-100 * change, 0) + '% in ' + since : change > 0.005 ? 'up ' + num(100 * change, 0) + '% in ' + since :
    'unchanged for ' + since;
}

function slow(s) {
  if (!s.slowest) return ['–', 'fewer than two nodes train'];
  const mine = s.slowest.name === s.name ? ' (this node)' : '';
  if (known(s.slowest.step_ms))
    return [s.slowest.name + mine, num(s.slowest.step_ms, 2) + ' ms a step, others ' + num(s.slowest.others_step_ms, 2)];
  const others = s.members.filter(m => known(m.steps_per_s) && m.training && !m.finished).map(m => m.steps_per_s).sort((a, b) => a - b);
  const median = others[Math.floor(others.length / 2)];
  if (s.slowest.steps_per_s >= 0.9 * median) return ['none', 'all take about ' + rate(median) + ' steps/s'];
  return [s.slowest.name + mine, rate(s.slowest.steps_per_s) + ' steps/s, others about ' + rate(median)];
}

function learning(s) {
  const score = s.r2 === undefined ? percent(s.accuracy) : 'R² ' + num(s.r2, 4);
  const unseen = s.r2 === undefined ? known(s.accuracy) : known(s.r2);
  const loss = known(s.loss) ? 'loss ' + num(s.loss, 4) : 'no loss yet';
  const how = trend();
  return [unseen ? score : loss, (unseen ? 'on test data · ' + (known(s.rmse) ? 'RMSE ' + quantity(s.rmse) + ' · ' : '') + loss : 'not measured on test data yet') + (how ? ', ' + how : '')];
}

function tiles(s) {
  const gone = s.members_known - s.members_here;
  const left = known(s.left_s) ? (s.left_s === 0 ? 'done' : span(s.left_s)) : known(s.steps) ? 'not known yet' : 'no end set';
  const list = [
    ['Connected?', s.members_here + ' of ' + plural(s.members_known, 'node'),
      s.neighbours ? s.neighbours_linked + ' of ' + plural(s.neighbours, 'neighbour') + ' linked' : gone ? 'no neighbour is left' : 'no other node yet'],
    ['Learning?', ...learning(s)],
    ['Time left?', left, known(s.steps_per_s) ? rate(s.steps_per_s) + ' steps/s' : 'takes no steps now'],
    ['Which is slow?', ...slow(s)],
  ];
  if ($('tiles').children.length === 0)
    $('tiles').replaceChildren(...list.map(([k]) => {
      const tile = element('div');
      tile.append(element('span', k, {class: 'k'}), element('b'), element('span', '', {class: 's'}));
      return tile;
    }));
  list.forEach(([, value, more], i) => {
    $('tiles').children[i].children[1].textContent = value;
    $('tiles').children[i].children[2].textContent = more;
  });
}

// -- the curves

function svg(name, attributes, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (known(text)) e.textContent = text;
  return e;
}

function nice(least, most, wanted) { // round numbers between the two
  const raw = (most - least) / wanted || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(m => m >= raw * 0.7);
  const list = [];
  for (let v = Math.ceil(least / step - 1e-9) * step; v <= most + step * 1e-9; v += step) list.push(v);
  return list;
}

const short = v => v >= 1e6 ? +(v / 1e6).toPrecision(3) + 'M' : v >= 1e4 ? +(v / 1e3).toPrecision(3) + 'k' : count(v);

// With enough decimal places to distinguish two ticks.
function tick_text(v, step, share) {
  const times = share ? 100 : 1, places = Math.max(0, Math.ceil(-Math.log10(step * times) - 1e-9));
  return +(v * times).toFixed(places) + (share ? '%' : '');
}

// A scale of the values: linear, or by powers where they span more than a factor of 20.
function scale_of(values, ratio) {
  let least = Math.min(...values), most = Math.max(...values);
  const powers = !ratio && least > 0 && most / least > 20;
  if (!powers) {
    const room = Math.max(0.08 * (most - least), ratio ? 0.005 : 0) || 0.05 * Math.abs(most) || 1;
    least = ratio ? least - room : Math.max(0, least - room);
    most = ratio ? Math.min(1, most + room) : most + room;
    const ticks = nice(least, most, 3), step = ticks.length > 1 ? ticks[1] - ticks[0] : most - least;
    return {ticks, place: v => (v - least) / (most - least || 1), text: (v, share) => tick_text(v, step, share)};
  }
  const low = Math.log10(least) - 0.1, high = Math.log10(most) + 0.1;
  const ticks = [];
  for (let e = Math.floor(low); e <= high; e++)
    for (const m of high - low > 2.2 ? [1] : [1, 3])
      if (Math.log10(m * 10 ** e) >= low && Math.log10(m * 10 ** e) <= high) ticks.push(m * 10 ** e);
  return {ticks, place: v => (Math.log10(v) - low) / (high - low), text: v => String(+v.toPrecision(2))};
}

const drawn = {}; // of each plot: what the pointer shows

// `ratio`: the values end at 1; `share`: they are shown in percent.
function plot(id, steps, values, label, ratio, share) {
  const box = $(id), w = Math.max(box.clientWidth, 120), h = box.clientHeight;
  const points = steps.map((x, i) => [x, values[i]]).filter(p => known(p[1]));
  const root = svg('svg', {viewBox: `0 0 ${w} ${h}`, role: 'img', 'aria-label': points.length ? 'now ' + label(points.at(-1)[1]) : 'nothing yet'});
  delete drawn[id];
  if (points.length < 2) {
    root.append(svg('text', {x: w / 2, y: h / 2, 'text-anchor': 'middle', class: 'none'}, 'nothing to draw yet'));
    box.replaceChildren(root);
    return;
  }
  const y = scale_of(points.map(p => p[1]), ratio), first = points[0][0], last = points.at(-1)[0];
  const left = 46, right = 10, top = 6, bottom = 20;
  const px = v => left + (v - first) / (last - first || 1) * (w - left - right), py = v => h - bottom - y.place(v) * (h - top - bottom);
  for (const t of y.ticks) {
    root.append(svg('line', {x1: left, x2: w - right, y1: py(t), y2: py(t), class: 'grid'}));
    root.append(svg('text', {x: left - 6, y: py(t) + 4, 'text-anchor': 'end'}, y.text(t, share)));
  }
  for (const t of nice(first, last, w < 400 ? 3 : 5))
    root.append(svg('text', {x: px(t), y: h - 4, 'text-anchor': px(t) > w - 30 ? 'end' : 'middle'}, short(t)));
  root.append(svg('path', {d: points.map((p, i) => (i ? 'L' : 'M') + px(p[0]).toFixed(1) + ' ' + py(p[1]).toFixed(1)).join('')}));
  const at = svg('line', {class: 'at', y1: top, y2: h - bottom, visibility: 'hidden'});
  root.append(at);
  box.replaceChildren(root);
  drawn[id] = {points, px, at, label};
  $(id + '-at').textContent = label(points.at(-1)[1]);
}

for (const id of ['loss', 'score']) {
  $(id).addEventListener('pointermove', event => {
    const d = drawn[id];
    if (!d) return;
    const x = event.clientX - $(id).getBoundingClientRect().left;
    const p = d.points.reduce((a, b) => Math.abs(d.px(b[0]) - x) < Math.abs(d.px(a[0]) - x) ? b : a);
    d.at.setAttribute('x1', d.px(p[0]));
    d.at.setAttribute('x2', d.px(p[0]));
    d.at.setAttribute('visibility', 'visible');
    $(id + '-at').textContent = 'step ' + count(p[0]) + ': ' + d.label(p[1]);
  });
  $(id).addEventListener('pointerleave', () => {
    if (!drawn[id]) return;
    drawn[id].at.setAttribute('visibility', 'hidden');
    $(id + '-at').textContent = drawn[id].label(drawn[id].points.at(-1)[1]);
  });
}

function curves() {
  if (!curve) return;
  const r2 = curve.r2 !== undefined;
  $('score-name').textContent = r2 ? 'R² on test data' : 'Accuracy on test data';
  plot('loss', curve.step, curve.loss, v => num(v, 4), false, false);
  plot('score', curve.step, r2 ? curve.r2 : curve.accuracy, v => r2 ? num(v, 4) : percent(v), true, !r2);
}

// -- tables

function table(id, heads, rows) {
  const tr = (tag, cells) => {
    const row = element('tr');
    row.append(...cells.map((v, i) => {
      const numeric = heads[i].startsWith('#');
      const cell = element(tag, v instanceof Node ? null : known(v) ? String(v).replace(/^#/, '') : '–', numeric ? {class: 'n'} : {});
      if (v instanceof Node) cell.append(v);
      if (v && v.tone) { cell.textContent = v.text; cell.classList.add(v.tone); }
      return cell;
    }));
    return row;
  };
  $(id).replaceChildren(tr('th', heads), ...rows.map(r => tr('td', r)));
}

const loopback = host => host === 'localhost' || host === '[::1]' || /^127\./.test(host);

// A link to the page of a member, if this browser can reach it.
function page_of(member) {
  const name = member.name + (member.self ? ' (this node)' : '');
  const host = known(member.http) ? member.http.replace(/:\d+$/, '') : null;
  if (member.self || host === null || member.state === 'dead' || member.state === 'left' ||
      (loopback(host) && !loopback(location.hostname))) return name;
  return element('a', name, {href: 'http://' + member.http + '/', rel: 'noreferrer'});
}

function does(m) {
  if (m.state === 'dead') return {text: 'dead', tone: 'bad'};
  if (m.state === 'left') return 'has left';
  if (known(m.banned_s)) return {text: 'kept out for ' + span(m.banned_s), tone: 'bad'};
  if (m.state === 'unproven') return {text: 'has not answered yet', tone: 'waiting'};
  if (m.state === 'suspect') return {text: 'does not answer', tone: 'bad'};
  if (m.finished) return 'has finished';
  if (m.training && m.eligible) return {text: 'trains', tone: 'good'};
  return {text: m.eligible ? 'ready' : 'joins', tone: 'waiting'};
}

function progress_of(m, steps) {
  if (!known(steps) || !(m.step > 0)) return m.step > 0 ? count(m.step) : '–';
  const cell = element('span'), bar = element('span', null, {class: 'bar'}), fill = element('i');
  fill.style.width = Math.min(100, 100 * m.step / steps) + '%';
  bar.append(fill);
  cell.append(bar, count(m.step));
  return cell;
}

const first = (a, b) => b.self - a.self || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
const reach = m => m.self ? '' : m.neighbour ? m.linked ? 'averages with this node' + (m.via ? ' over ' + m.via : '') : {text: 'neighbour without a link', tone: 'bad'} : '';

function members(s) {
  const shown = [...s.members].sort(first);
  table('members', ['node', 'state', 'for', '#step', '#steps/s', '', 'address'], shown.map(m => [
    page_of(m), does(m), span(m.since), progress_of(m, s.steps), m.state === 'dead' || m.state === 'left' ? '–' : rate(m.steps_per_s),
    reach(m), m.addresses.join(' ')]));
  const local = shown.some(m => known(m.http) && loopback(m.http.replace(/:\d+$/, ''))) && !loopback(location.hostname);
  $('pages').textContent = local ? 'Pages that listen on loopback only can be seen on their own hosts.' : '';
}

// How others reach this node, and what it does for those that cannot reach each other.
function reached(s) {
  const relays = (s.members.find(m => m.self) || {}).relays || [];
  const way = s.reach === 'reachable' ? 'Other nodes can call this one' : s.reach === 'private' ?
    'No other node could call this one: it calls them itself' + (relays.length ? ', and is reached over ' + relays.join(' and ') : '') : '';
  return way && way + (s.outside ? ' (seen at ' + s.outside + ')' : '') + '.' +
    (s.port_mapping.state === 'mapped' ? ' The router forwards ' + s.port_mapping.address + ' to it (' + s.port_mapping.by + ').' : '') +
    (s.forwarded_bytes > 0 ? ' It has forwarded ' + bytes(s.forwarded_bytes) + ' for others.' : '');
}

const edge_state = e => e.barred ? {text: 'not met for a while: it sent implausible values', tone: 'bad'} :
  e.state === 'LIVE' || e.state === 'live' ? {text: 'exchanges run', tone: 'good'} :
  e.state === 'down' ? {text: 'no connection', tone: 'bad'} : {text: 'begins', tone: 'waiting'};

const speed = (e, v) => known(v) && e.state !== 'down' ? bytes(v) + '/s' : '–';

const path_of = e => e.path === 'relayed' ? 'over ' + (e.via || 'another member') : known(e.path) ? e.path : '–';

function edges(s) {
  table('edges', ['neighbour', 'state', 'way', '#round trip', '#sent/s', '#received/s', '#sent', '#received', '#exchanges', '#late', '#restarts', '#answers in'],
    [...s.edges].sort((a, b) => a.name < b.name ? -1 : 1).map(e => [
      e.name || e.peer.slice(0, 16), edge_state(e), path_of(e), known(e.round_trip_ms) ? num(e.round_trip_ms, 1) + ' ms' : '–', speed(e, e.sent_per_s), speed(e, e.received_per_s), bytes(e.bytes_sent), bytes(e.bytes_received),
      count(e.exchanges), count(e.timeouts), count(e.resyncs), e.exchanges > 0 ? num(e.answer_ms, 1) + ' ms' : '–']));
}

// -- events, in words for people who do not know the terms of this program

const happened = {
  join: e => e.member + ' has joined',
  alive: e => e.member + (e.before === 'suspect' ? ' has answered after all: it is alive' : ' is back'),
  suspect: e => e.member + ' does not answer: it may be dead',
  dead: e => e.member + (e.evidence ? ' has died: its process has ended' : ' is dead: it has not answered for too long'),
  left: e => e.member + ' has left on purpose',
  accused: e => e.member + (e.was_dead ? ' had declared this node dead' : ' suspected this node of being dead') + '; it was told that this node is alive',
  view: e => e.members < 2 ? 'There is no other node to average with' : plural(e.members, 'node') + ' average now' +
    (e.neighbours.length ? '; this one with ' + e.neighbours.join(', ') : '; this one is not among them yet'),
  takeover: e => e.shards.length ? 'The other nodes train on the data of ' + plural(e.shards.length, 'absent node') :
    'All data has its own node again',
};

function events(s) {
  const news = [];
  let graph = ''; // the latest text about it
  for (const e of s.events) {
    const text = e.text || e.event, said = happened[e.event] ? happened[e.event](e) : text[0].toUpperCase() + text.slice(1);
    if (e.event !== 'view' || said !== graph) news.push([e.time, said]);
    if (e.event === 'view') graph = said;
  }
  const list = news.slice(-14).reverse().map(([time, text]) => {
    const item = element('li');
    item.append(element('time', new Date(1000 * time).toLocaleTimeString('en-GB')), element('span', text));
    return item;
  });
  $('events').replaceChildren(...(list.length ? list : [element('li', 'Nothing yet.')]));
}

// -- live

function draw(s) {
  document.title = s.name + ' - p2pml';
  $('name').textContent = s.name;
  $('sub').textContent = 'cluster ' + s.cluster + ' · ' + s.model + ' · running for ' + span(s.uptime_s);
  banner(s.condition, s.condition_text);
  settings(s.settings_that_do_not_fit);
  way(s);
  tiles(s);
  members(s);
  edges(s);
  events(s);
  $('reach').textContent = reached(s);
  $('facts').textContent = 'p2pml ' + s.version + ' · id ' + s.id.slice(0, 16) + ' · ' + count(s.parameters) + ' parameters · round ' +
    count(s.round) + ' · sent ' + bytes(s.bytes_sent) + ', received ' + bytes(s.bytes_received) + ' · free on disk ' + bytes(s.disk_free);
}

const json = async path => (await fetch(path, {cache: 'no-store'})).json();
let turns = 0;

async function show() {
  try {
    if (turns++ % 2 === 0) { curve = await json('/history'); curves(); }
    draw(await json('/status'));
  } catch (error) {
    banner('silent', 'The process has ended, or the network to it is down. The figures below are the last that it reported. This page keeps trying.');
  }
  setTimeout(show, 1000);
}

addEventListener('resize', curves);
show();
