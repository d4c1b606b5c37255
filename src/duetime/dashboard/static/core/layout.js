// The layout of a graph: each node is right of all its parents and, within its column, near them. Also the critical
// path: the chain of nodes that ran, with the longest duration.

const WIDE = 190;
const HIGH = 58;

export function layOut(nodes, edges) {
  const parents = new Map(nodes.map((node) => [node.name, []]));
  edges.forEach((edge) => parents.get(edge.child).push(edge.parent));
  const order = sorted(nodes, edges);
  const column = new Map();
  order.forEach((name) => column.set(name, Math.max(-1, ...parents.get(name).map((parent) => column.get(parent))) + 1));
  const columns = [];
  order.forEach((name) => (columns[column.get(name)] = columns[column.get(name)] || []).push(name));
  const row = new Map();
  columns.forEach((names) => {
    const pull = (name) => {
      const rows = parents.get(name).map((parent) => row.get(parent));
      return rows.length ? rows.reduce((sum, each) => sum + each, 0) / rows.length : 0;
    };
    names.sort((one, other) => pull(one) - pull(other));
    names.forEach((name, place) => row.set(name, place));
  });
  const most = Math.max(...columns.map((names) => names.length));
  const places = new Map();
  columns.forEach((names, at) => {
    const top = ((most - names.length) * HIGH) / 2;
    names.forEach((name, place) => places.set(name, { x: at * WIDE, y: top + place * HIGH }));
  });
  return { places, width: columns.length * WIDE - (WIDE - 150), height: most * HIGH - (HIGH - 44), order, parents };
}

/** The names in topological order: parents before their children. */
function sorted(nodes, edges) {
  const waits = new Map(nodes.map((node) => [node.name, 0]));
  const children = new Map(nodes.map((node) => [node.name, []]));
  edges.forEach((edge) => {
    waits.set(edge.child, waits.get(edge.child) + 1);
    children.get(edge.parent).push(edge.child);
  });
  const ready = nodes.map((node) => node.name).filter((name) => !waits.get(name));
  for (let place = 0; place < ready.length; place++) {
    children.get(ready[place]).forEach((child) => {
      waits.set(child, waits.get(child) - 1);
      if (!waits.get(child)) ready.push(child);
    });
  }
  return ready;
}

/** Only of nodes that have started: a node that was skipped, or still waits, delays nothing. */
export function criticalPath(nodes, { order, parents }, now) {
  const took = new Map(
    nodes
      .filter((node) => node.started_at)
      .map((node) => [node.name, Math.max(0.001, ((node.finished_at ? Date.parse(node.finished_at) : now) - Date.parse(node.started_at)) / 1000)]),
  );
  const best = new Map();
  const longest = (names) => names.reduce((found, each) => (!found || best.get(each).sum > best.get(found).sum ? each : found), null);
  const ran = order.filter((name) => took.has(name));
  ran.forEach((name) => {
    const before = longest(parents.get(name).filter((each) => best.has(each)));
    best.set(name, { before, sum: took.get(name) + (before ? best.get(before).sum : 0) });
  });
  const last = longest(ran);
  const path = [];
  for (let name = last; name; name = best.get(name).before) path.unshift(name);
  return { path, seconds: last ? best.get(last).sum : 0 };
}
