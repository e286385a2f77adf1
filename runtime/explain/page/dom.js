// Elements, numbers as people read them, and the colours of stages.

// A script that fails leaves its words on the page's root, where a test looks for them.
window.addEventListener('error', (event) => {
  document.documentElement.dataset.error = event.message;
});

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...[children].flat().filter((child) => child !== null));
  return element;
}

function html(tag, attributes = {}, children = []) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, children = []) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A drawing with its name and description for those who do not see it. */
function drawing(width, height, name, description, children) {
  const attributes = {
    viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': `${name}. ${description}`,
  };
  return svg('svg', attributes, [svg('desc', {}, description), ...children]);
}

function byId(id) {
  return document.getElementById(id);
}

function scaled(value, base, prefixes) {
  let at = 0;
  while (Math.abs(value) >= base && at + 1 < prefixes.length) {
    value /= base;
    ++at;
  }
  const digits = value >= 100 || (at === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  const number = value === 0 ? '0' : value.toFixed(digits);
  return `${number} ${prefixes[at]}`.trim();
}

const timeText = (seconds) => scaled(seconds * 1e9, 1000, ['ns', 'µs', 'ms', 's']);
const bytesText = (bytes) => scaled(bytes, 1024, ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']);
const rateText = (bytes) => scaled(bytes, 1000, ['B/s', 'KB/s', 'MB/s', 'GB/s', 'TB/s']);
const countText = (count) => scaled(count, 1000, ['', 'K', 'M', 'G', 'T']);
const flopText = (flops) => scaled(
    flops, 1000, ['FLOP', 'KFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP']);
const plural = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;

function shortened(text, length) {
  return text.length <= length ? text : text.slice(0, length - 1) + '…';
}

/** About `count` marks up to `end`, at round multiples of `unit`. */
function ticks(end, count, unit = 1) {
  const rough = end / count / unit;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = unit * power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, at) => at * step);
}

/** The colour of "once", "parallel", "last" or a recurrence; recurrences get theirs as they come. */
const stageColour = (() => {
  const colours = new Map([
    ['once', 'var(--once)'], ['parallel', 'var(--parallel)'], ['last', 'var(--once)'],
  ]);
  const fixed = colours.size;
  return (stage) => {
    if (!colours.has(stage)) colours.set(stage, `var(--c${(colours.size - fixed) % 8})`);
    return colours.get(stage);
  };
})();

const stageStyle = (stage) => `--stage: ${stageColour(stage)}`;

/** What a node is called in the text, what it does and how often: "i = sigmoid ×4". */
function labelOf(node) {
  const label = node.local ? `${node.name} = ${node.label}` : node.label;
  return node.copies > 1 ? `${label} ×${node.copies}` : label;
}

/** How a stage of the plan is called in the graphs. */
function stageKey(stage) {
  if (stage.recurrence !== 'none') return stage.title;
  return ['once', 'last'].includes(stage.domain) ? stage.domain : 'parallel';
}

function stageName(key) {
  if (key === 'once') return 'once a call';
  if (key === 'parallel') return 'time-parallel';
  if (key === 'last') return 'after all steps';
  return `recurrence of ${key}`;
}
