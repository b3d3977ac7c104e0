// The graph of all nodes at the beginning, on a circle. Nodes that are gone are marked.
const GRAPH = 320, RING = 126;

// The places on the circle follow the edges, not the names: from each node to the neighbour with the fewest remaining
// neighbours. A ring is drawn as a ring.
function placesOf(graph) {
  const n = graph.nodes.length, next = Array.from({ length: n }, () => []), places = new Array(n).fill(-1);
  for (const [a, b] of graph.edges.filter(([a, b]) => next[a] && next[b])) {
    next[a].push(b);
    next[b].push(a);
  }
  const left = i => next[i].filter(j => places[j] < 0).length;
  for (let place = 0, at = 0; place < n; place++) {
    if (at === undefined) at = places.indexOf(-1);
    places[at] = place;
    at = next[at].filter(j => places[j] < 0).sort((a, b) => left(a) - left(b) || a - b)[0];
  }
  return places;
}

// The hub of a star is in the middle.
function hubOf(graph) {
  const star = graph.nodes.length > 3 && graph.edges.length === graph.nodes.length - 1;
  return star ? graph.nodes.findIndex((_, i) => graph.edges.every(edge => edge.includes(i))) : -1;
}

function verticesOf(graph) {
  const n = graph.nodes.length, hub = hubOf(graph);
  return placesOf(graph).map((place, i) => {
    const angle = (2 * Math.PI * place) / n - Math.PI / 2, radius = n > 1 && i !== hub ? RING : 0;
    return [GRAPH / 2 + radius * Math.cos(angle), GRAPH / 2 + radius * Math.sin(angle), angle];
  });
}

// Long chords bend inwards, so that the chords of a dense graph stay distinguishable; edges of neighbours on the circle are
// straight.
function chord(from, to) {
  const middle = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2], centre = GRAPH / 2;
  const bend = 0.35 * Math.max(0, Math.hypot(from[0] - to[0], from[1] - to[1]) / RING - 0.8);
  return "M" + round1(from[0]) + " " + round1(from[1]) + "Q" + round1(middle[0] + bend * (centre - middle[0])) + " " + round1(middle[1] + bend * (centre - middle[1])) + " " + round1(to[0]) + " " + round1(to[1]);
}

function vertexShapes(graph, i, [x, y, angle], gone) {
  const n = graph.nodes.length, r = n <= 32 ? 7 : n <= 128 ? 4 : 2.2, lost = gone.has(i);
  const group = shape("g", {}, shape("circle", { class: lost ? "vertex gone" : "vertex", cx: round1(x), cy: round1(y), r }, shape("title", {}, String(graph.nodes[i]) + (lost ? ", gone" : ""))));
  if (lost) {
    const s = r * 0.5;
    group.append(shape("path", { class: "away", d: "M" + round1(x - s) + " " + round1(y - s) + "L" + round1(x + s) + " " + round1(y + s) + "M" + round1(x - s) + " " + round1(y + s) + "L" + round1(x + s) + " " + round1(y - s) }));
  }
  if (n <= 48) {
    const out = Math.hypot(x - GRAPH / 2, y - GRAPH / 2) + 20;
    group.append(shape("text", { x: round1(GRAPH / 2 + out * Math.cos(angle)), y: round1(GRAPH / 2 + out * Math.sin(angle) + 4), "text-anchor": "middle" }, shorten(String(graph.nodes[i]).replace(/^node-/, ""), 40)));
  }
  return group;
}

function graphPicture(graph) {
  const n = graph.nodes.length, gone = new Set(graph.gone || []), svg = shape("svg", { viewBox: "0 0 " + GRAPH + " " + GRAPH, role: "img", "aria-label": graph.kind + " of " + n + " nodes" });
  const vertices = verticesOf(graph), many = graph.edges.length > 200 ? " many" : "", inside = i => Number.isInteger(i) && i >= 0 && i < n;
  for (const [a, b] of graph.edges) {
    if (!inside(a) || !inside(b)) continue;
    svg.append(shape("path", { class: "edge" + many + (gone.has(a) || gone.has(b) ? " lost" : ""), d: chord(vertices[a], vertices[b]) }));
  }
  for (let i = 0; i < n; i++) svg.append(vertexShapes(graph, i, vertices[i], gone));
  return svg;
}

function graphFigure(graph) {
  const gone = (graph.gone || []).length, small = count(graph.n_nodes) + " nodes, " + count(graph.n_edges) + " edges" + (gone ? ", " + gone + " gone at the end" : "");
  return make("figure", { class: "card", "data-chart": "graph" }, caption(graph.kind, small), graph.drawn ? graphPicture(graph) : make("p", { class: "empty" }, "too many to draw"));
}

// One for each topology: among equal nodes and edges, the case that lost most nodes.
function showGraphs() {
  const kept = new Map();
  for (const graph of DATA.graphs) {
    const key = graph.kind + " " + graph.n_nodes + " " + graph.n_edges, other = kept.get(key);
    if (!other || (graph.gone || []).length > (other.gone || []).length) kept.set(key, graph);
  }
  byId("graphs").hidden = !kept.size;
  byId("graph-figures").append(...[...kept.values()].slice(0, 24).map(graphFigure));
}
