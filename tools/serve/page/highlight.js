// Colours of a text: those of its tokens, and lines below what is wrong.

const TOKENS = /(\/\/.*)|("[^"\n]*"?)|(\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_]*)|[^\p{L}\d"/_]+|[^]/gu;

/** Pieces [text, class] that are the text, put together. */
function tokensOf(text, words, functions) {
  return Array.from(text.matchAll(TOKENS), ([token, comment, string, number, name]) => {
    if (comment) return [token, 'comment'];
    if (string) return [token, 'string'];
    if (number) return [token, 'number'];
    if (words.has(name)) return [token, 'word'];
    return [token, functions.has(name) ? 'function' : ''];
  });
}

/** Elements of the text; `marks` are ranges {begin, end, kind} of it. */
function highlighted(text, words, functions, marks) {
  const cuts = marks.flatMap(({ begin, end }) => [begin, end]).sort((one, other) => one - other);
  const elements = [];
  let at = 0;
  for (const [token, kind] of tokensOf(text, words, functions)) {
    const end = at + token.length;
    const places = [at, ...cuts.filter((cut) => cut > at && cut < end), end];
    for (let piece = 0; piece + 1 < places.length; ++piece) {
      const [from, to] = [places[piece], places[piece + 1]];
      const mark = marks.find(({ begin, end: last }) => begin <= from && to <= last);
      const classes = [kind, mark?.kind].filter(Boolean).join(' ');
      const written = text.slice(from, to);
      elements.push(classes ? html('span', { class: classes }, written) : written);
    }
    at = end;
  }
  return elements;
}
