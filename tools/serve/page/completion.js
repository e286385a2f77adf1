// Words that fit what is being typed, below it.

class Completion {
  constructor(editor, fetchCandidates) {
    this.editor = editor;
    this.fetch = fetchCandidates;
    this.list = byId('candidates');
    this.all = [];
    this.start = -1;  // of the word that they are for
    editor.area.addEventListener('input', (event) => this.typed(event));
    editor.area.addEventListener('keydown', (event) => this.key(event), { capture: true });
    editor.area.addEventListener('blur', () => this.close());
    editor.area.addEventListener('click', () => this.close());
    editor.area.addEventListener('scroll', () => this.close());
  }

  get isOpen() { return !this.list.hidden; }

  wordStart() {
    const before = this.editor.text.slice(0, this.editor.offset);
    return this.editor.offset - /[\p{L}\p{N}_]*$/u.exec(before)[0].length;
  }

  typed(event) {
    const start = this.wordStart();
    const word = this.editor.text.slice(start, this.editor.offset);
    const isName = /^[\p{L}_]/u.test(word);
    if (this.isOpen && start === this.start) return this.show();
    this.close();
    if (isName && word.length >= 2 && event.inputType === 'insertText') this.open();
  }

  async open() {
    const start = this.wordStart();
    this.start = start;
    this.all = await this.fetch(start);
    if (this.start === start && this.wordStart() === start) this.show();
  }

  show() {
    const word = this.editor.text.slice(this.start, this.editor.offset);
    const fitting = this.all.filter(({ label }) => label.startsWith(word) && label !== word).slice(0, 100);
    if (fitting.length === 0) return this.close();
    this.list.replaceChildren(...fitting.map(({ label, detail }, at) => {
      const item = html('li', { role: 'option', id: `candidate-${at}`, 'aria-selected': 'false', 'data-word': label },
                        [label, detail && detail !== label ? html('span', {}, shortened(detail, 60)) : null]);
      item.addEventListener('mousedown', (event) => { event.preventDefault(); this.take(label); });
      return item;
    }));
    this.list.hidden = false;
    const { left, bottom } = this.editor.placeOf(this.start);
    const room = byId('page').clientWidth - this.list.offsetWidth - 4;
    const above = bottom + this.list.offsetHeight > byId('page').clientHeight;
    this.list.style.left = `${Math.max(0, Math.min(left - 11, room))}px`;
    this.list.style.top = `${above ? Math.max(0, bottom - 20 - this.list.offsetHeight) : bottom}px`;
    this.choose(0);
  }

  choose(at) {
    const items = [...this.list.children];
    this.chosen = (at + items.length) % items.length;
    items.forEach((item, number) => item.setAttribute('aria-selected', `${number === this.chosen}`));
    items[this.chosen].scrollIntoView({ block: 'nearest' });
    this.editor.area.setAttribute('aria-activedescendant', items[this.chosen].id);
  }

  take(word) {
    const start = this.start;
    this.close();
    this.editor.replace(start, this.editor.offset, word);
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.start = -1;
    this.editor.area.removeAttribute('aria-activedescendant');
  }

  key(event) {
    if (event.key === ' ' && event.ctrlKey) {
      event.preventDefault();
      this.open();
    } else if (this.isOpen) {
      const keys = {
        ArrowDown: () => this.choose(this.chosen + 1),
        ArrowUp: () => this.choose(this.chosen - 1),
        Enter: () => this.take(this.list.children[this.chosen].dataset.word),
        Tab: () => this.take(this.list.children[this.chosen].dataset.word),
        Escape: () => this.close(),
      };
      if (!keys[event.key] || event.isComposing) return;
      event.preventDefault();
      keys[event.key]();
    }
  }
}
