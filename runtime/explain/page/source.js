// The text that the step graph is made of, beside it: a click on a line lights its nodes, a click on a
// node its line.

/** "file:line" of a place "file:line:column"; "" where there is none. */
function lineOf(place) {
  const found = /^(.*:\d+):\d+$/.exec(place);
  return found ? found[1] : '';
}

/** Nodes of all drawings by the line that they come from. */
function nodesByLine() {
  const lines = new Map();
  for (const node of document.querySelectorAll('#pictures .node')) {
    const line = node.dataset.line;
    if (line) lines.set(line, [...(lines.get(line) ?? []), node]);
  }
  return lines;
}

function sourceLine(number, text, key, nodes) {
  const parts = [html('span', { class: 'line-number' }, `${number}`), html('code', {}, text || ' ')];
  if (!nodes) return html('div', { class: 'line' }, parts);
  return html('button', {
    type: 'button', class: 'line', 'data-line': key, 'aria-pressed': 'false',
  }, parts);
}

function drawSource(data) {
  const files = data.sources;
  const byLine = nodesByLine();
  byId('source').hidden = files.length === 0;
  const status = html('p', { class: 'chosen-text', role: 'status' });
  const figures = files.map((file) => html('figure', { class: 'picture' }, [
    html('figcaption', {}, html('h3', {}, file.name)),
    html('div', { class: 'source-text', tabindex: 0, role: 'group', 'aria-label': file.name },
         file.text.replace(/\n$/, '').split('\n').map((text, at) => {
           const key = `${file.name}:${at + 1}`;
           return sourceLine(at + 1, text, key, byLine.get(key));
         })),
  ]));
  byId('source-files').append(...figures, status);

  const lines = [...byId('source-files').querySelectorAll('button.line')];
  const choose = (key, isNode) => {
    const again = lines.some((line) => (
      line.dataset.line === key && line.getAttribute('aria-pressed') === 'true'));
    const chosen = again && !isNode ? '' : key;
    document.querySelectorAll('#pictures .node').forEach((node) => (
      node.classList.toggle('chosen', chosen !== '' && node.dataset.line === chosen)));
    for (const line of lines) line.setAttribute('aria-pressed', `${line.dataset.line === chosen}`);
    const nodes = chosen === '' ? [] : byLine.get(chosen);
    const names = [...new Set(nodes.map((node) => node.dataset.name))];
    status.textContent = chosen === '' ? '' : `${chosen} is ${names.join(', ')}`;
    const target = isNode ? lines.find((line) => line.dataset.line === chosen) : nodes[0];
    if (target) target.scrollIntoView({ block: 'nearest', inline: 'center' });
  };
  lines.forEach((line) => line.addEventListener('click', () => choose(line.dataset.line, false)));
  byLine.forEach((nodes, key) => nodes.forEach((node) => (
    node.addEventListener('click', () => choose(key, true)))));
}
