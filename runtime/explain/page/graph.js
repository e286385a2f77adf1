// The step graphs.

/** Edges that go up again: through time, or to the next turn of a loop. */
const isBackward = (edge) => edge.through_time || Boolean(edge.across);

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

/** "3 more like it" of a node that stands for others. */
function copiesText(node) {
  return node.copies > 1 ? `, ${node.copies} times: ${shortened(node.names.join(', '), 200)}` : '';
}

function drawNode(node, place, id) {
  const frame = {
    x: place.x - place.width / 2, y: place.y - NODE_HEIGHT / 2, width: place.width,
    height: NODE_HEIGHT, rx: ['state', 'input', 'output'].includes(node.kind) ? 18 : 5,
  };
  const twoLines = node.detail !== '[]';
  const line = lineOf(node.place);
  const what = node.name && node.name !== node.label ? `${node.name}: ${node.label}` : node.label;
  const words = `${what} ${node.detail}: ${node.kind}, ${stageName(node.stage)}` +
      (node.place ? `, at ${node.place}` : '') + copiesText(node);
  const links = { ...(line ? { 'data-line': line } : {}),
    ...(node.launch ? { 'data-launch': (node.launches ?? [node.launch]).join(' ') } : {}) };
  const isLinked = Object.keys(links).length > 0;
  return svg('g', {
    class: `node ${node.kind}`, 'data-id': id, 'data-name': node.name || node.label,
    style: stageStyle(node.stage), tabindex: -1, role: isLinked ? 'button' : 'img',
    'aria-label': words, ...(isLinked ? { 'aria-pressed': 'false' } : {}), ...links,
  }, [
    svg('title', {}, words),
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

/** Lights a node with its operands and users while the pointer or the keyboard is on it. */
function lightUp(picture) {
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
  const dim = () => picture.classList.remove('lit');
  nodes.forEach((node, id) => {
    node.addEventListener('pointerenter', () => light(id));
    node.addEventListener('focus', () => light(id));
    node.addEventListener('blur', dim);
  });
  picture.addEventListener('pointerleave', dim);
}

/** The node that an arrow key leads to: an operand above, a user below, neighbours on its layer. */
function nodeBeside(key, id, graph, places) {
  const edges = graph.edges.filter((edge) => !isBackward(edge));
  if (key === 'ArrowUp') return edges.find((edge) => edge.to === id)?.from;
  if (key === 'ArrowDown') return edges.find((edge) => edge.from === id)?.to;
  const row = places.nodes.filter((place) => place.layer === places.nodes[id].layer)
      .sort((a, b) => a.x - b.x);
  const at = row.findIndex((place) => place.id === id);
  if (key === 'ArrowLeft') return row[at - 1]?.id;
  return key === 'ArrowRight' ? row[at + 1]?.id : undefined;
}

/** One stop for the tabulator; arrows go along the edges, Enter and the space bar click. */
function useKeys(picture, graph, places) {
  const nodes = [...picture.querySelectorAll('.node')];
  if (nodes.length === 0) return;
  const first = openingNode(graph);
  nodes[first].setAttribute('tabindex', 0);
  picture.addEventListener('keydown', (event) => {
    const node = event.target.closest('.node');
    if (!node) return;
    const next = nodeBeside(event.key, Number(node.dataset.id), graph, places);
    if (event.key === 'Enter' || event.key === ' ') {
      node.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    } else if (next !== undefined) {
      node.setAttribute('tabindex', -1);
      nodes[next].setAttribute('tabindex', 0);
      nodes[next].focus();
    } else if (!event.key.startsWith('Arrow')) {
      return;
    }
    event.preventDefault();
  });
}

/** Where one begins to read: the first input. */
function openingNode(graph) {
  return Math.max(0, graph.nodes.findIndex((node) => node.kind === 'input'));
}

function drawGraph(graph, name, title) {
  const places = layOut(graph);
  const arrow = `arrow-${name}`;
  const paths = [
    ...places.routes.map(({ edge, route }) => ({ edge, path: edgePath(route) })),
    ...graph.edges.filter(isBackward).map((edge) => (
      { edge, path: throughTimePath(places.nodes[edge.from], places.nodes[edge.to]) })),
  ].map(({ edge, path }) => svg('path', {
    class: edge.through_time ? 'edge through-time' : edge.across ? 'edge across' : 'edge', d: path,
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
  picture.setAttribute('role', 'group');
  lightUp(picture);
  useKeys(picture, graph, places);
  return { picture, words, width: places.width, opening: places.nodes[openingNode(graph)] };
}

// Text that is smaller than this part of its size scrolls instead.
const LEAST_ZOOM = 0.75;

/** A graph in a frame that scrolls, with buttons for its size and for each turn of loops. */
function frameGraph({ name, title, whole, folded, drawn }) {
  let { picture, width, opening } = drawn;
  const canvas = html('div', { class: 'canvas', tabindex: 0, role: 'group', 'aria-label': title },
                      picture);
  let zoom = 1;
  const resize = (factor) => {
    zoom = factor;
    picture.setAttribute('width', width * zoom);
    picture.removeAttribute('height');
  };
  const button = (label, words, act) => {
    const element = html('button', { type: 'button', 'aria-label': `${words} ${title}` }, label);
    element.addEventListener('click', act);
    return element;
  };
  const fit = () => Math.min(1, Math.max(0.2, (canvas.clientWidth - 24) / width));
  const open = () => {
    resize(Math.max(LEAST_ZOOM, fit()));
    if (!opening) return;
    canvas.scrollLeft = opening.x * zoom - canvas.clientWidth / 2;
    canvas.scrollTop = opening.y * zoom - canvas.clientHeight / 2;
  };
  const text = html('span', {}, drawn.words);
  const turns = html('button', { type: 'button', 'aria-pressed': 'false' }, 'Each turn of loops');
  turns.addEventListener('click', () => {
    const each = turns.getAttribute('aria-pressed') === 'false';
    turns.setAttribute('aria-pressed', `${each}`);
    const other = drawGraph(each ? whole : folded, name, title);
    canvas.replaceChildren(other.picture);
    ({ picture, width, opening } = other);
    text.textContent = other.words;
    open();
  });
  const figure = html('figure', { class: 'picture' }, [
    html('figcaption', {}, [
      html('h3', {}, title), text,
      whole.repeats.length ? turns : null,
      button('−', 'Make smaller:', () => resize(zoom / 1.25)),
      button('Fit', 'Fit:', () => resize(fit())),
      button('+', 'Make larger:', () => resize(zoom * 1.25)),
    ]),
    canvas,
  ]);
  requestAnimationFrame(open);
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
  ].map(([name, title, whole]) => {
    const folded = foldGraph(whole);
    return { name, title, whole, folded, drawn: drawGraph(folded, name, title) };
  });
  const pictures = byId('pictures');
  const width = chosen.reduce((sum, { drawn }) => sum + drawn.width, 0);
  if (width < 1500 && chosen.length === 2) pictures.className = 'beside';
  pictures.append(...chosen.map(frameGraph));
  const stages = new Set([before, simplified, after].flatMap((graph) => (
    graph.nodes.map((node) => node.stage))));
  byId('legend').append(...[...stages].map((stage) => html('span', {}, [
    html('i', { class: 'swatch', style: `background: ${stageColour(stage)}` }), stageName(stage),
  ])));
}
