// Turns of a loop, and layers, as one.

/** The graph with each repeat's first copy alone; its nodes say how many they stand for, and which
    launches. An edge from one copy to the next goes from the copy to itself and counts as
    `across`. */
function foldGraph(graph) {
  const foldOnce = (id, { first, length, count }) => {
    const inside = id >= first && id < first + length * count;
    return { id: inside ? first + (id - first) % length : id,
      turn: inside ? Math.floor((id - first) / length) : -1 };
  };
  const places = graph.nodes.map((node, id) => graph.repeats.reduce((place, repeat) => {
    const { id: to, turn } = foldOnce(place.id, repeat);
    return { id: to, turns: [...place.turns, turn],
      copies: place.copies * (turn < 0 ? 1 : repeat.count) };
  }, { id, turns: [], copies: 1 }));
  const number = new Map();
  const nodes = graph.nodes.filter((node, id) => {
    if (places[id].id !== id) return false;
    number.set(id, number.size);
    return true;
  }).map((node) => ({ ...node }));
  graph.nodes.forEach((node, id) => {
    const shown = nodes[number.get(places[id].id)];
    shown.copies = places[id].copies;
    shown.names = [...(shown.names ?? []), node.name || node.label];
    if (node.launch) shown.launches = [...(shown.launches ?? []), node.launch];
  });
  const edges = new Map();
  for (const edge of graph.edges) {
    const [from, to] = [places[edge.from], places[edge.to]];
    const across = from.turns.some((turn, at) => (
      turn >= 0 && to.turns[at] >= 0 && turn !== to.turns[at]));
    const folded = { ...edge, from: number.get(from.id), to: number.get(to.id), across };
    edges.set([folded.from, folded.to, edge.through_time, across].join(), folded);
  }
  return { nodes, edges: [...edges.values()], repeats: [] };
}
