// The page of `rnnc explain`, in a frame that can reach nothing of this page.

class Explanation {
  constructor() {
    this.frame = byId('explanation');
    this.top = 0;
    this.next = null;  // the page that takes the place of the one being loaded
    this.loading = false;
    this.frame.addEventListener('load', () => {
      this.loading = false;
      if (this.next !== null) this.load();
    });
    window.addEventListener('message', (event) => {
      if (event.source === this.frame.contentWindow) this.top = Number(event.data) || 0;
    });
  }

  /** A browser may forget a page that is given while it loads another: each waits for the last. */
  show(page) {
    this.next = page;
    if (!this.loading) this.load();
    this.frame.classList.remove('stale');
    byId('failure').hidden = true;
  }

  /** A page that takes the place of another shows what that one showed. */
  load() {
    const page = this.next;
    this.next = null;
    this.loading = true;
    const keep = `<script>scrollTo({ top: ${this.top}, behavior: 'instant' });
addEventListener('scroll', () => parent.postMessage(scrollY, '*'));<\/script>`;
    const end = page.lastIndexOf('</body>');
    this.frame.srcdoc = page.slice(0, end) + keep + page.slice(end);
  }

  /** What is shown is of a text that was. */
  fail(words) {
    this.frame.classList.add('stale');
    byId('failure').hidden = words === '';
    byId('failure').textContent = words;
  }
}
