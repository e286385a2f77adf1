// The text beside its graph, and what lights what: a line its nodes and launches, a node its line,
// a launch its lines and their nodes.

/** "file:line" of a place "file:line:column"; "" where there is none. */
function lineOf(place) {
  const found = /^(.*:\d+):\d+$/.exec(place);
  return found ? found[1] : '';
}

/** The launches of each line. */
function launchesByLine(data) {
  const lines = new Map();
  for (const launch of data.stages.flatMap((stage) => stage.launches)) {
    for (const line of launch.lines) lines.set(line, [...(lines.get(line) ?? []), launch]);
  }
  return lines;
}

/** Lines that have a node in the step graph. */
function linesOfNodes(data) {
  return new Set(data.graphs.before.nodes.map((node) => lineOf(node.place)));
}

/** Whether a launch that stands for "3.1-4" or "3.1" has this id. */
function hasId(launch, id) {
  if (launch.id === id) return true;
  const [, stage, first, last] = /^(\d+)\.(\d+)-(\d+)$/.exec(launch.id) ?? [];
  const [wantedStage, number] = id.split('.');
  return stage === wantedStage && Number(first) <= Number(number) && Number(number) <= Number(last);
}

function sourceLine(number, text, key, isLinked) {
  const parts = [html('span', { class: 'line-number' }, `${number}`), html('code', {}, text || ' ')];
  if (!isLinked) return html('div', { class: 'line' }, parts);
  return html('button', {
    type: 'button', class: 'line', 'data-line': key, 'aria-pressed': 'false',
  }, parts);
}

/** Moves what scrolls alone, not the page. */
function scrollWithin(box, element) {
  const [outer, inner] = [box.getBoundingClientRect(), element.getBoundingClientRect()];
  box.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    box.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
  }
}

/** What is chosen lies in `lines` and `launches`; `words` say it. */
function lightChosen(lines, launches, words) {
  const chosen = { lines: new Set(lines), launches };
  const isChosen = (node) => chosen.lines.has(node.dataset.line) ||
      node.dataset.launch?.split(' ').some((id) => launches.some((launch) => hasId(launch, id)));
  for (const node of document.querySelectorAll('#pictures .node')) {
    node.classList.toggle('chosen', Boolean(isChosen(node)));
    if (node.getAttribute('role') === 'button') {
      node.setAttribute('aria-pressed', `${Boolean(isChosen(node))}`);
    }
  }
  for (const line of document.querySelectorAll('#source-files button.line')) {
    line.setAttribute('aria-pressed', `${chosen.lines.has(line.dataset.line)}`);
  }
  for (const row of document.querySelectorAll('#stages tr.launch')) {
    const on = launches.some((launch) => launch.id === row.dataset.id);
    row.classList.toggle('chosen', on);
    row.querySelector('button.launch-id')?.setAttribute('aria-pressed', `${on}`);
  }
  byId('chosen-text').textContent = words;
  for (const box of document.querySelectorAll('#pictures .canvas')) {
    const node = box.querySelector('.node.chosen');
    if (node) scrollWithin(box, node);
  }
  for (const box of document.querySelectorAll('#source-files .source-text')) {
    const line = box.querySelector('[aria-pressed="true"]');
    if (line) scrollWithin(box, line);
  }
}

/** `line(key)` and `launches(ids)`, as "3.1" or "3.1 5.1": what is chosen already is let go. */
function makeChoice(data) {
  const byLine = launchesByLine(data);
  const launches = data.stages.flatMap((stage) => stage.launches);
  let now = '';
  const choose = (key, lines, chosen, words) => {
    const again = now === key;
    now = again ? '' : key;
    if (again) lightChosen([], [], '');
    else lightChosen(lines, chosen, words);
  };
  return {
    line: (key) => {
      const nodes = data.graphs.before.nodes.filter((node) => lineOf(node.place) === key);
      const names = [...new Set(nodes.map((node) => node.name || node.label))];
      const chosen = byLine.get(key) ?? [];
      const ids = chosen.map((launch) => launch.id).join(', ');
      choose(key, [key], chosen, `${key} is ${names.join(', ')}` +
          (ids ? `; in launch ${ids}` : '; no launch computes it'));
    },
    launches: (ids) => {
      const wanted = ids.split(' ');
      const chosen = launches.filter((launch) => wanted.some((id) => hasId(launch, id)));
      const lines = [...new Set(chosen.flatMap((launch) => launch.lines))];
      const names = chosen.map((launch) => launch.id).join(', ');
      const subject = chosen.length > 1 ? `launches ${names} compute` : `launch ${names} computes`;
      choose(`launch ${names}`, lines, chosen,
             `${subject} ${lines.length ? lines.join(', ') : 'nothing that stands in the text'}`);
    },
  };
}

function drawSource(data) {
  const files = data.sources;
  const ofNodes = linesOfNodes(data);
  const byLine = launchesByLine(data);
  byId('source').hidden = files.length === 0;
  byId('source-files').append(...files.map((file) => html('figure', { class: 'picture' }, [
    html('figcaption', {}, html('h3', {}, file.name)),
    html('div', { class: 'source-text', tabindex: 0, role: 'group', 'aria-label': file.name },
         file.text.replace(/\n$/, '').split('\n').map((text, at) => {
           const key = `${file.name}:${at + 1}`;
           return sourceLine(at + 1, text, key, ofNodes.has(key) || byLine.has(key));
         })),
  ])));
  byId('chosen-text').textContent = '';
  const choice = makeChoice(data);
  byId('source-files').onclick = ({ target }) => {
    const line = target.closest('button.line');
    if (line) choice.line(line.dataset.line);
  };
  byId('pictures').onclick = ({ target }) => {
    const node = target.closest('.node');
    if (node?.dataset.line) choice.line(node.dataset.line);
    else if (node?.dataset.launch) choice.launches(node.dataset.launch);
  };
  byId('stages').onclick = ({ target }) => {
    const id = target.closest('button.launch-id');
    const line = target.closest('button.launch-line');
    if (id) choice.launches(id.dataset.id);
    if (!line) return;
    choice.line(line.dataset.line);
    byId('source').scrollIntoView({ block: 'nearest' });
  };
}
