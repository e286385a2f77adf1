// A layered drawing of a directed acyclic graph.
//
// 1. A node's layer is one below the lowest of its operands. Leaves move down to just above their
//    first user, and so does a node if that does not make more edges longer than it makes shorter.
// 2. An edge over several layers passes through a point on each; edges from one node share them.
// 3. Within a layer, nodes and points are put in order of the mean place of their neighbours in the
//    layer above, then below, a few times over.
// 4. Each is then moved as near to the mean of its neighbours as its order and width allow.

const GAP = 16;         // between nodes of a layer
const LAYER_GAP = 30;   // between layers
const NODE_HEIGHT = 36;

function nodeWidth(node) {
  return Math.max(44, 7.4 * Math.max(labelOf(node).length, 0.86 * node.detail.length) + 18);
}

function findLayers(count, operands, users) {
  const layer = new Array(count).fill(0);
  const held = new Array(count).fill(0);  // edges that get longer if the node moves down: those of
                                          // operands that others use, too; the rest move with it
  for (let id = 0; id < count; ++id) {
    for (const operand of operands[id]) {
      layer[id] = Math.max(layer[id], layer[operand] + 1);
      held[id] += users[operand].length > 1 ? 1 : held[operand];
    }
  }
  for (let id = count - 1; id >= 0; --id) {
    if (users[id].length === 0 || held[id] > users[id].length) continue;
    layer[id] = Math.min(...users[id].map((user) => layer[user])) - 1;
  }
  return layer;
}

/** Nodes and points by layer, and the edges from one layer to the next. */
function makeItems(graph, layer) {
  const items = graph.nodes.map((node, id) => (
    { id, layer: layer[id], width: nodeWidth(node), above: [], below: [], x: 0 }));
  const points = new Map();
  const link = (from, to) => {
    if (from.below.includes(to)) return;
    from.below.push(to);
    to.above.push(from);
  };
  const routes = graph.edges.filter((edge) => !isBackward(edge)).map((edge) => {
    const route = [items[edge.from]];
    for (let at = layer[edge.from] + 1; at < layer[edge.to]; ++at) {
      const key = `${edge.from}:${at}`;
      if (!points.has(key)) {
        points.set(key, { id: -1, layer: at, width: 4, above: [], below: [], x: 0 });
      }
      route.push(points.get(key));
    }
    route.push(items[edge.to]);
    for (let i = 1; i < route.length; ++i) link(route[i - 1], route[i]);
    return { edge, route };
  });
  const layers = [];
  for (const item of [...items, ...points.values()]) (layers[item.layer] ??= []).push(item);
  return { items, routes, layers };
}

function orderLayers(layers) {
  const place = () => layers.forEach((row) => row.forEach((item, at) => {
    item.place = (at + 0.5) / row.length;
  }));
  const mean = (neighbours, otherwise) => neighbours.length === 0 ? otherwise
    : neighbours.reduce((sum, item) => sum + item.place, 0) / neighbours.length;
  place();
  for (let round = 0; round < 24; ++round) {
    const down = round % 2 === 0;
    for (const row of down ? layers : [...layers].reverse()) {
      for (const item of row) item.wanted = mean(down ? item.above : item.below, item.place);
      row.sort((a, b) => a.wanted - b.wanted);
      row.forEach((item, at) => { item.place = (at + 0.5) / row.length; });
    }
  }
}

/** Moves a row's items to the places nearest to `wanted` that keep their order and gaps: isotonic
    regression, by pooling neighbours that would overlap. */
function spreadRow(row) {
  const pools = [];
  let offset = 0;
  row.forEach((item, at) => {
    if (at > 0) offset += (row[at - 1].width + item.width) / 2 + GAP;
    item.offset = offset;
    pools.push({ sum: item.wanted - offset, items: [item] });
    while (pools.length > 1) {
      const [left, right] = pools.slice(-2);
      if (left.sum / left.items.length <= right.sum / right.items.length) break;
      pools.splice(-2, 2, { sum: left.sum + right.sum, items: [...left.items, ...right.items] });
    }
  });
  for (const pool of pools) {
    for (const item of pool.items) item.x = pool.sum / pool.items.length + item.offset;
  }
}

function placeItems(layers) {
  for (const row of layers) {
    row.forEach((item) => { item.wanted = 0; });
    spreadRow(row);
  }
  for (let round = 0; round < 40; ++round) {
    const down = round % 2 === 0;
    for (const row of down ? layers : [...layers].reverse()) {
      for (const item of row) {
        const near = down ? item.above : item.below;
        const sum = near.reduce((total, other) => total + other.x, 0);
        item.wanted = near.length === 0 ? item.x : sum / near.length;
      }
      spreadRow(row);
    }
  }
}

/** Centres of the nodes, points of the edges, and the size of it all. */
function layOut(graph) {
  const operands = graph.nodes.map(() => []);
  const users = graph.nodes.map(() => []);
  for (const edge of graph.edges) {
    if (isBackward(edge)) continue;
    operands[edge.to].push(edge.from);
    users[edge.from].push(edge.to);
  }
  const { items, routes, layers } =
      makeItems(graph, findLayers(graph.nodes.length, operands, users));
  orderLayers(layers);
  placeItems(layers);
  const all = layers.flat();
  const left = Math.min(...all.map((item) => item.x - item.width / 2));
  const right = Math.max(...all.map((item) => item.x + item.width / 2));
  const margin = 96;  // for edges that go up again
  for (const item of all) {
    item.x += margin - left;
    item.y = item.layer * (NODE_HEIGHT + LAYER_GAP) + NODE_HEIGHT / 2 + 6;
  }
  return {
    nodes: items,
    routes,
    width: Math.ceil(right - left + 2 * margin),
    height: layers.length * (NODE_HEIGHT + LAYER_GAP) - LAYER_GAP + 12,
  };
}
