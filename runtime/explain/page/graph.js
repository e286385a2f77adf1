// The step graphs.

const ADJECTIVES = ['elementwise', 'structure'];  // among the kinds of nodes

function edgePath(route) {
  const half = NODE_HEIGHT / 2;
  let path = '';
  for (let i = 1; i < route.length; ++i) {
    const [from, to] = [route[i - 1], route[i]];
    const y0 = from.y + half;
    const y1 = to.y - half;
    const middle = (y0 + y1) / 2;
    if (i === 1) path += `M${from.x.toFixed(1)},${y0}`;
    path += `C${from.x.toFixed(1)},${middle} ${to.x.toFixed(1)},${middle} ${to.x.toFixed(1)},${y1}`;
    if (i + 1 < route.length) path += `V${to.y + half}`;
  }
  return path;
}

/** From a state's new value around the side where it is read, back up to there. */
function throughTimePath(from, to) {
  const side = to.x > from.x ? 1 : -1;
  const x0 = from.x + side * from.width / 2;
  const x1 = to.x + side * to.width / 2;
  const bulge = Math.min(90, 24 + Math.abs(from.y - to.y) / 8);
  const outside = side > 0 ? Math.max(x0, x1) + bulge : Math.min(x0, x1) - bulge;
  return `M${x0},${from.y}C${outside},${from.y} ${outside},${to.y} ${x1},${to.y}`;
}

function drawNode(node, place, id) {
  const frame = {
    x: place.x - place.width / 2, y: place.y - NODE_HEIGHT / 2, width: place.width,
    height: NODE_HEIGHT, rx: ['state', 'input', 'output'].includes(node.kind) ? 18 : 5,
  };
  const twoLines = node.detail !== '[]';
  const line = lineOf(node.place);
  const attributes = {
    class: `node ${node.kind}`, 'data-id': id, 'data-name': node.name || node.label,
    style: stageStyle(node.stage), ...(line ? { 'data-line': line } : {}),
  };
  const what = node.name && node.name !== node.label ? `${node.name}: ${node.label}` : node.label;
  return svg('g', attributes, [
    svg('title', {}, `${what} ${node.detail}: ${node.kind}, ${stageName(node.stage)}` +
        (node.place ? `, at ${node.place}` : '')),
    svg('rect', { class: 'frame', ...frame }),
    svg('rect', { class: 'tint', ...frame }),
    svg('text', { x: place.x, y: place.y + (twoLines ? -1 : 4) }, labelOf(node)),
    twoLines ? svg('text', { class: 'soft', x: place.x, y: place.y + 13 }, node.detail) : null,
  ]);
}

function drawArrow(id) {
  return svg('defs', {}, svg('marker', {
    id, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 6, markerHeight: 6,
    orient: 'auto-start-reverse',
  }, svg('path', { d: 'M0,1L7,4L0,7z', fill: 'var(--soft)' })));
}

/** Lights a node with its operands and users while the pointer is on it. */
function lightUp(picture, graph) {
  const edges = [...picture.querySelectorAll('.edge')];
  const nodes = [...picture.querySelectorAll('.node')];
  const light = (id) => {
    const near = new Set([id]);
    for (const edge of edges) {
      const on = Number(edge.dataset.from) === id || Number(edge.dataset.to) === id;
      edge.classList.toggle('on', on);
      if (on) near.add(Number(edge.dataset.from)).add(Number(edge.dataset.to));
    }
    nodes.forEach((node, at) => node.classList.toggle('on', near.has(at)));
    picture.classList.add('lit');
  };
  nodes.forEach((node, id) => node.addEventListener('pointerenter', () => light(id)));
  picture.addEventListener('pointerleave', () => picture.classList.remove('lit'));
}

function drawGraph(graph, name, title) {
  const places = layOut(graph);
  const arrow = `arrow-${name}`;
  const paths = [
    ...places.routes.map(({ edge, route }) => ({ edge, path: edgePath(route) })),
    ...graph.edges.filter((edge) => edge.through_time).map((edge) => (
      { edge, path: throughTimePath(places.nodes[edge.from], places.nodes[edge.to]) })),
  ].map(({ edge, path }) => svg('path', {
    class: edge.through_time ? 'edge through-time' : 'edge', d: path,
    'data-from': edge.from, 'data-to': edge.to, 'marker-end': `url(#${arrow})`,
    style: stageStyle(graph.nodes[edge.to].stage),
  }));
  const counts = new Map();
  for (const node of graph.nodes) counts.set(node.kind, (counts.get(node.kind) ?? 0) + 1);
  const words = [...counts].map(([kind, count]) => (
    ADJECTIVES.includes(kind) ? `${count} ${kind}` : plural(count, kind))).join(', ');
  const picture = drawing(places.width, places.height, title, `A graph of ${words}.`, [
    drawArrow(arrow),
    svg('g', {}, paths),
    svg('g', {}, graph.nodes.map((node, id) => drawNode(node, places.nodes[id], id))),
  ]);
  picture.id = `graph-${name}`;
  lightUp(picture, graph);
  return { picture, words, width: places.width };
}

/** The drawing in a frame that scrolls, with buttons for its size. */
function frameGraph({ picture, words, width }, title) {
  const canvas = html('div', { class: 'canvas', tabindex: 0, role: 'group', 'aria-label': title },
                      picture);
  let zoom = 1;
  const resize = (factor) => {
    zoom = factor;
    picture.setAttribute('width', width * zoom);
    picture.removeAttribute('height');
  };
  const button = (label, name, factor) => {
    const element = html('button', { type: 'button', 'aria-label': `${name} ${title}` }, label);
    element.addEventListener('click', () => resize(factor()));
    return element;
  };
  const fit = () => Math.min(1, Math.max(0.2, (canvas.clientWidth - 24) / width));
  const figure = html('figure', { class: 'picture' }, [
    html('figcaption', {}, [
      html('h3', {}, title), html('span', {}, words),
      button('−', 'Make smaller:', () => zoom / 1.25), button('Fit', 'Fit:', fit),
      button('+', 'Make larger:', () => zoom * 1.25),
    ]),
    canvas,
  ]);
  // Small text is no use: what would be under 0.6 of its size scrolls instead.
  requestAnimationFrame(() => resize(Math.max(0.6, fit())));
  return figure;
}

/** The step graph, what the passes over it leave of it if they change it, and the launches. */
function drawGraphs(data) {
  const { before, simplified, after } = data.graphs;
  const same = JSON.stringify(before) === JSON.stringify(simplified);
  const chosen = [
    ['before', 'Before the passes: the step graph', before],
    ...(same ? [] : [['simplified', 'The step graph simplified', simplified]]),
    ['after', 'After the passes: the launches', after],
  ].map(([name, title, graph]) => ({ title, drawn: drawGraph(graph, name, title) }));
  const pictures = byId('pictures');
  const width = chosen.reduce((sum, { drawn }) => sum + drawn.width, 0);
  if (width < 1500 && chosen.length === 2) pictures.className = 'beside';
  pictures.append(...chosen.map(({ title, drawn }) => frameGraph(drawn, title)));
  const stages = new Set([before, simplified, after].flatMap((graph) => (
    graph.nodes.map((node) => node.stage))));
  byId('legend').append(...[...stages].map((stage) => html('span', {}, [
    html('i', { class: 'swatch', style: `background: ${stageColour(stage)}` }), stageName(stage),
  ])));
}
