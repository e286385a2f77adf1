// What is typed or chosen is asked about, after a pause, and shown.

const PAUSE = 250;  // milliseconds
const FIRST = 'cells/lstm.rnn';
const CHOICES = ['batch', 'steps', 'device', 'dtype'];
// Of dims without a default: numbers of layers, and all others.
const SIZES = new Map([['L', '2']]);
const USUAL_SIZE = '64';

const editor = new Editor();
const explanation = new Explanation();
const dims = new Map();  // what was chosen, by name
let fileName = FIRST;
let asking = new AbortController();
let pause = 0;

function setStatus(text, state) {
  byId('status').textContent = text;
  document.documentElement.dataset.state = state;
}

function hoverText(result) {
  return result ? result.contents.value.replace(/^```.*\n?/gm, '').trim() : '';
}

/** One question to the language server, of a place; null if it cannot tell. */
async function askAt(method, offset) {
  try {
    const asked = [[method, { position: editor.positionOf(offset) }]];
    return (await askLanguage(fileName, editor.text, asked)).results[0];
  } catch {
    return null;
  }
}

function showProblems(diagnostics) {
  editor.show(diagnostics);
  byId('problems').replaceChildren(...diagnostics.map(({ range, severity, message }) => {
    const { line, character } = range.start;
    const kind = severity === 1 ? 'error' : 'warning';
    const button = html('button', { type: 'button', class: severity === 1 ? '' : 'doubt' },
                        `${line + 1}:${character + 1}: ${kind}: ${message}`);
    button.addEventListener('click', () => {
      const begin = editor.offsetOf(range.start);
      editor.area.focus();
      editor.area.setSelectionRange(begin, editor.offsetOf(range.end));
      editor.area.scrollTop = Math.max(0, (line - 4) * 20);
    });
    return html('li', {}, button);
  }));
  if (diagnostics.length === 0) byId('problems').append(html('li', {}, 'none'));
}

/** The cells to choose from, and the dims of the chosen one. */
function showDefinitions(definitions) {
  const select = byId('cell');
  const names = definitions.map(({ name }) => name);
  const chosen = names.includes(select.value) ? select.value : names.at(-1) ?? '';
  select.replaceChildren(...names.map((name) => html('option', {}, name)));
  select.value = chosen;
  const wanted = definitions.find(({ name }) => name === chosen)?.dims ?? [];
  const shown = [...byId('dims').querySelectorAll('input')].map((input) => `${input.name}=${input.placeholder}`);
  if (shown.join() === wanted.map((dim) => `${dim.name}=${dim.default ?? ''}`).join()) return;
  byId('dims').replaceChildren(...wanted.map((dim) => {
    const value = dims.get(dim.name) ?? (dim.default === null ? SIZES.get(dim.name) ?? USUAL_SIZE : '');
    const input = html('input', { type: 'number', min: 1, name: dim.name, placeholder: dim.default ?? '', value });
    input.addEventListener('input', () => dims.set(dim.name, input.value));
    return html('label', {}, [`${dim.name} `, input]);
  }));
}

function settings() {
  const given = [...byId('dims').querySelectorAll('input')].filter((input) => input.value !== '');
  return {
    cell: byId('cell').value,
    dims: Object.fromEntries(given.map((input) => [input.name, input.value])),
    backward: byId('backward').checked,
    ...Object.fromEntries(CHOICES.map((id) => [id, byId(id).value])),
  };
}

async function explain(text, signal) {
  const begin = performance.now();
  const about = { name: fileName, text };
  const [{ diagnostics }, { definitions }] = await Promise.all([
    askLanguage(fileName, text, [], signal), askJson('describe', about, signal)]);
  showProblems(diagnostics);
  showDefinitions(definitions);
  const errors = diagnostics.filter(({ severity }) => severity === 1).length;
  if (errors > 0 || definitions.length === 0) {
    explanation.fail('');
    return setStatus(errors > 0 ? plural(errors, 'error') : 'there is no cell yet', 'wrong');
  }
  explanation.show(await (await ask('explain', { ...about, ...settings() }, signal)).text());
  setStatus(`explained in ${Math.round(performance.now() - begin)} ms`, 'explained');
}

/** What was asked about an older text is of no use any more. */
async function refresh() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  setStatus('…', 'asking');
  try {
    await explain(editor.text, signal);
  } catch (error) {
    if (signal.aborted) return;
    explanation.fail(error instanceof Refusal ? error.message : 'rnnc serve does not answer: is it still running?');
    setStatus('not explained', 'refused');
  }
}

function refreshSoon() {
  clearTimeout(pause);
  document.documentElement.dataset.state = 'waiting';
  pause = setTimeout(refresh, PAUSE);
}

async function open(name) {
  try {
    const { text } = await askJson('open', { name });
    setName(name);
    byId('cell').replaceChildren();
    dims.clear();
    byId('dims').replaceChildren();
    editor.load(text);
    byId('open').value = name;
  } catch (error) {
    explanation.fail(error.message);
  }
}

function setName(name) {
  fileName = name;
  byId('name').textContent = name;
}

function listFiles({ files, examples }) {
  const group = (label, names) => html('optgroup', { label }, names.map((name) => (
    html('option', { value: name }, name.replace(/^.*\//, '').replace(/\.rnn$/, '')))));
  byId('open').append(...[
    ['The folder', files], ['Cells', examples.filter((name) => name.startsWith('cells/'))],
    ['Networks', examples.filter((name) => !name.startsWith('cells/'))],
  ].filter(([, names]) => names.length > 0).map(([label, names]) => group(label, names)));
}

async function format() {
  const edits = await askLanguage(fileName, editor.text, [
    ['formatting', { options: { tabSize: 2, insertSpaces: true } }]]);
  const places = (edits.results[0] ?? []).map(({ range, newText }) => (
    [editor.offsetOf(range.start), editor.offsetOf(range.end), newText]));
  // From the end, so that places before it stay.
  places.sort(([one], [other]) => other - one).forEach((place) => editor.replace(...place));
}

function download() {
  const address = URL.createObjectURL(new Blob([editor.text], { type: 'text/plain' }));
  html('a', { href: address, download: fileName.replace(/^.*\//, '') }).click();
  URL.revokeObjectURL(address);
}

/** What is at a place: below the pointer in a tip, at the cursor below the text. */
function followPlaces() {
  const tip = byId('tip');
  let waiting = 0;
  const hide = () => { clearTimeout(waiting); tip.hidden = true; };
  editor.area.addEventListener('mousemove', ({ clientX, clientY }) => {
    hide();
    waiting = setTimeout(async () => {
      const offset = editor.offsetBelow(clientX, clientY);
      if (offset === null) return;
      tip.textContent = hoverText(await askAt('hover', offset));
      tip.hidden = tip.textContent === '';
      const { left, bottom } = editor.placeOf(offset);
      tip.style.left = `${Math.max(0, Math.min(left, byId('page').clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${bottom + 2}px`;
    }, 350);
  });
  for (const event of ['mouseleave', 'keydown', 'scroll']) editor.area.addEventListener(event, hide);

  let moved = 0;
  document.addEventListener('selectionchange', () => {
    if (document.activeElement !== editor.area) return;
    clearTimeout(moved);
    moved = setTimeout(async () => {
      byId('cursor').textContent = hoverText(await askAt('hover', editor.offset));
    }, 350);
  });
}

async function start() {
  const offered = await askJson('list', {});
  editor.words = new Set(offered.words);
  editor.functions = new Set(offered.functions);
  listFiles(offered);
  editor.area.addEventListener('input', () => {
    byId('open').value = '';  // so that the file can be opened again
    sessionStorage.setItem('text', JSON.stringify({ name: fileName, text: editor.text }));
    refreshSoon();
  });
  byId('open').addEventListener('change', ({ target }) => { if (target.value) open(target.value); });
  byId('settings').addEventListener('input', ({ target }) => { if (target.id !== 'open') refreshSoon(); });
  byId('settings').addEventListener('submit', (event) => event.preventDefault());
  byId('format').addEventListener('click', format);
  byId('save').addEventListener('click', download);
  new Completion(editor, async (offset) => await askAt('completion', offset) ?? []);
  followPlaces();
  // A page that is loaded again goes on.
  const kept = JSON.parse(sessionStorage.getItem('text') ?? 'null');
  if (!kept) return open(FIRST);
  setName(kept.name);
  editor.load(kept.text);
}

start().catch((error) => setStatus(error.message, 'refused'));
