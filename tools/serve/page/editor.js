// A text area with its colours behind it: both have the same lines in the same places.

class Editor {
  constructor() {
    this.area = byId('text');
    this.words = new Set();
    this.functions = new Set();
    this.diagnostics = [];
    this.area.addEventListener('input', () => this.changed());
    this.area.addEventListener('scroll', () => this.follow());
    this.area.addEventListener('keydown', (event) => this.indent(event));
  }

  get text() { return this.area.value; }
  get offset() { return this.area.selectionStart; }

  /** Bytes of the protocol's places are UTF-16 units, as JavaScript's are. */
  offsetOf({ line, character }) {
    let at = 0;
    for (let passed = 0; passed < line; ++passed) {
      const end = this.text.indexOf('\n', at);
      if (end < 0) return this.text.length;
      at = end + 1;
    }
    return Math.min(at + character, this.text.length);
  }

  positionOf(offset) {
    const before = this.text.slice(0, offset).split('\n');
    return { line: before.length - 1, character: before.at(-1).length };
  }

  /** Such that the browser can undo it, where the browser lets it. */
  replace(begin, end, text) {
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(begin, end);
    const done = text === '' ? document.execCommand('delete') : document.execCommand('insertText', false, text);
    if (done && this.area.selectionStart === begin + text.length) return;
    this.area.setRangeText(text, begin, end, 'end');
    this.area.dispatchEvent(new Event('input'));
  }

  /** A text of another file. */
  load(text) {
    this.area.value = text;
    this.area.setSelectionRange(0, 0);
    this.area.scrollTo(0, 0);
    this.diagnostics = [];
    this.area.dispatchEvent(new Event('input'));
  }

  changed() {
    this.draw();
  }

  show(diagnostics) {
    this.diagnostics = diagnostics;
    this.draw();
  }

  draw() {
    const marks = this.diagnostics.map(({ range, severity }) => {
      const begin = this.offsetOf(range.start);
      return { begin, end: Math.max(this.offsetOf(range.end), begin + 1),
               kind: severity === 1 ? 'error' : 'warning' };
    });
    // The last line is there, too, where it is empty.
    byId('shown').replaceChildren(...highlighted(this.text, this.words, this.functions, marks), '\n');
    const lines = this.text.split('\n').length;
    byId('numbers').textContent = Array.from({ length: lines }, (_, at) => at + 1).join('\n');
    this.follow();
  }

  follow() {
    const { scrollLeft, scrollTop } = this.area;
    byId('shown').style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
    byId('numbers').style.transform = `translateY(${-scrollTop}px)`;
  }

  /** Where a character stands, from the corner of the text. */
  placeOf(offset) {
    const walk = document.createTreeWalker(byId('shown'), NodeFilter.SHOW_TEXT);
    let left = offset;
    while (walk.nextNode() && left >= walk.currentNode.length) left -= walk.currentNode.length;
    const range = document.createRange();
    range.setStart(walk.currentNode, Math.min(left, walk.currentNode.length));
    const rect = range.getClientRects()[0] ?? range.getBoundingClientRect();
    const corner = byId('page').getBoundingClientRect();
    return { left: rect.left - corner.left, bottom: rect.bottom - corner.top };
  }

  /** The character below the pointer, or null. */
  offsetBelow(x, y) {
    this.area.style.pointerEvents = 'none';
    const at = document.caretPositionFromPoint?.(x, y);
    const place = at ? { node: at.offsetNode, offset: at.offset } : rangePlace(x, y);
    this.area.style.pointerEvents = '';
    if (!place || !byId('shown').contains(place.node)) return null;
    const range = document.createRange();
    range.setStart(byId('shown'), 0);
    range.setEnd(place.node, place.offset);
    return Math.min(range.toString().length, this.text.length);
  }

  /** A new line begins where the one before it does, and further in behind a brace. */
  indent(event) {
    if (event.key !== 'Enter' || event.defaultPrevented || event.isComposing || event.ctrlKey) return;
    event.preventDefault();
    const line = this.text.slice(0, this.offset).split('\n').at(-1);
    const more = line.trimEnd().endsWith('{') ? '  ' : '';
    this.replace(this.offset, this.area.selectionEnd, `\n${/^ */.exec(line)[0]}${more}`);
  }
}

/** What older Chromium and Safari have in place of `caretPositionFromPoint`. */
function rangePlace(x, y) {
  const range = document.caretRangeFromPoint?.(x, y);
  return range ? { node: range.startContainer, offset: range.startOffset } : null;
}
