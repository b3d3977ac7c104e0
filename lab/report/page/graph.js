// The graph of all nodes at the beginning, on a circle in the order of the plan. Those that went are marked.
const GRAPH = 320, RING = 126;

function vertexAt(i, n) {
  const angle = (2 * Math.PI * i) / n - Math.PI / 2, radius = n > 1 ? RING : 0;
  return [GRAPH / 2 + radius * Math.cos(angle), GRAPH / 2 + radius * Math.sin(angle), angle];
}

// Long chords bend inwards, so that those of a dense graph can be told apart; neighbours on the circle are straight.
function chord(from, to) {
  const middle = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2], centre = GRAPH / 2;
  const bend = 0.35 * Math.max(0, Math.hypot(from[0] - to[0], from[1] - to[1]) / RING - 0.8);
  return "M" + round1(from[0]) + " " + round1(from[1]) + "Q" + round1(middle[0] + bend * (centre - middle[0])) + " " + round1(middle[1] + bend * (centre - middle[1])) + " " + round1(to[0]) + " " + round1(to[1]);
}

function vertexShapes(graph, i, gone) {
  const n = graph.nodes.length, [x, y, angle] = vertexAt(i, n), r = n <= 32 ? 7 : n <= 128 ? 4 : 2.2, lost = gone.has(i);
  const group = shape("g", {}, shape("circle", { class: lost ? "vertex gone" : "vertex", cx: round1(x), cy: round1(y), r }, shape("title", {}, String(graph.nodes[i]) + (lost ? ", gone" : ""))));
  if (lost) {
    const s = r * 0.5;
    group.append(shape("path", { class: "away", d: "M" + round1(x - s) + " " + round1(y - s) + "L" + round1(x + s) + " " + round1(y + s) + "M" + round1(x - s) + " " + round1(y + s) + "L" + round1(x + s) + " " + round1(y - s) }));
  }
  if (n <= 48) {
    const out = RING + 20;
    group.append(shape("text", { x: round1(GRAPH / 2 + out * Math.cos(angle)), y: round1(GRAPH / 2 + out * Math.sin(angle) + 4), "text-anchor": "middle" }, shorten(String(graph.nodes[i]).replace(/^node-/, ""), 40)));
  }
  return group;
}

function graphPicture(graph) {
  const n = graph.nodes.length, gone = new Set(graph.gone || []), svg = shape("svg", { viewBox: "0 0 " + GRAPH + " " + GRAPH, role: "img", "aria-label": graph.kind + " of " + n + " nodes" });
  const many = graph.edges.length > 200 ? " many" : "", inside = i => Number.isInteger(i) && i >= 0 && i < n;
  for (const [a, b] of graph.edges) {
    if (!inside(a) || !inside(b)) continue;
    svg.append(shape("path", { class: "edge" + many + (gone.has(a) || gone.has(b) ? " lost" : ""), d: chord(vertexAt(a, n), vertexAt(b, n)) }));
  }
  for (let i = 0; i < n; i++) svg.append(vertexShapes(graph, i, gone));
  return svg;
}

function graphFigure(graph) {
  const gone = (graph.gone || []).length, small = count(graph.n_nodes) + " nodes, " + count(graph.n_edges) + " edges" + (gone ? ", " + gone + " gone at the end" : "");
  return make("figure", { class: "card", "data-chart": "graph" }, caption(graph.kind, small), graph.drawn ? graphPicture(graph) : make("p", { class: "empty" }, "too many to draw"));
}

// One for each topology: of those with the same nodes and edges, the one that lost most.
function showGraphs() {
  const kept = new Map();
  for (const graph of DATA.graphs) {
    const key = graph.kind + " " + graph.n_nodes + " " + graph.n_edges, other = kept.get(key);
    if (!other || (graph.gone || []).length > (other.gone || []).length) kept.set(key, graph);
  }
  byId("graphs").hidden = !kept.size;
  byId("graph-figures").append(...[...kept.values()].slice(0, 24).map(graphFigure));
}
