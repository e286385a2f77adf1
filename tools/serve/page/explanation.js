// The page of `rnnc explain`, in a frame that can reach nothing of this page.

class Explanation {
  constructor() {
    this.frame = byId('explanation');
    this.top = 0;
    window.addEventListener('message', (event) => {
      if (event.source === this.frame.contentWindow) this.top = Number(event.data) || 0;
    });
  }

  /** A page that takes the place of another shows what that one showed. */
  show(page) {
    const keep = `<script>scrollTo({ top: ${this.top}, behavior: 'instant' });
addEventListener('scroll', () => parent.postMessage(scrollY, '*'));<\/script>`;
    const end = page.lastIndexOf('</body>');
    this.frame.srcdoc = page.slice(0, end) + keep + page.slice(end);
    this.frame.classList.remove('stale');
    byId('failure').hidden = true;
  }

  /** What is shown is of a text that was. */
  fail(words) {
    this.frame.classList.add('stale');
    byId('failure').hidden = words === '';
    byId('failure').textContent = words;
  }
}
