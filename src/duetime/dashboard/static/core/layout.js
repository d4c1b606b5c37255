// The layout of a graph: each node is right of all its parents and, within its column, near them. Also the critical
// path: the chain of nodes with the longest duration.

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

export function criticalPath(nodes, { order, parents }, now) {
  const took = new Map(
    nodes.map((node) => {
      const running = node.started_at && !node.finished_at ? (now - Date.parse(node.started_at)) / 1000 : 0;
      return [node.name, node.duration || running || 0.001];
    }),
  );
  const best = new Map();
  order.forEach((name) => {
    const before = parents.get(name).reduce((found, each) => (!found || best.get(each).sum > best.get(found).sum ? each : found), null);
    best.set(name, { before, sum: took.get(name) + (before ? best.get(before).sum : 0) });
  });
  const last = order.reduce((found, each) => (!found || best.get(each).sum > best.get(found).sum ? each : found), null);
  const path = [];
  for (let name = last; name; name = best.get(name).before) path.unshift(name);
  return { path, seconds: last ? best.get(last).sum : 0 };
}
