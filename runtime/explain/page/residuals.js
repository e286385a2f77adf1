// Training: what the forward half saves, and the choice of the half that is shown.

const HOW_TEXT = {
  saved: 'saved', anew: 'computed anew', read: 'read again', 'not needed': 'not needed',
};

function residualRow(value) {
  const number = value.bytes > 0 ? bytesText(value.bytes) : '';
  return html('tr', { class: 'residual' }, [
    html('td', { class: 'mono' }, value.name),
    html('td', { class: 'mono' }, value.shape),
    html('td', {}, html('span', { class: 'bound' }, HOW_TEXT[value.how])),
    html('td', { class: 'number' }, number),
    html('td', {}, value.how === 'anew' && !value.asked
      ? `${value.why}; only what is computed anew needs it` : value.why),
    html('td', { class: 'mono' }, value.place),
    html('td', { class: 'mono' }, value.array),
  ]);
}

function residualTable(values) {
  const columns = ['value', 'shape', 'how', 'bytes', 'why', 'place', 'array'];
  const order = Object.keys(HOW_TEXT);
  const sorted = [...values].sort((a, b) => order.indexOf(a.how) - order.indexOf(b.how));
  return html('div', { class: 'scroll' }, html('table', {}, [
    html('thead', {}, html('tr', {}, columns.map((name) => (
      html('th', { scope: 'col', class: name === 'bytes' ? 'number' : '' }, name))))),
    html('tbody', {}, sorted.map(residualRow)),
  ]));
}

function drawResiduals(data) {
  const { residuals, forward, backward } = data;
  byId('residuals').hidden = false;
  byId('residuals-link').hidden = false;
  const saved = residuals.values.filter((value) => value.how === 'saved');
  byId('residuals-text').textContent =
      `Training, of all params and inputs: ${saved.length} of ` +
      `${plural(residuals.values.length, 'value')} of a step are saved by the forward half for ` +
      `the backward one (residuals: ${residuals.choice}).`;
  const seconds = (half) => half.totals.seconds / half.steps;
  byId('residuals-tiles').append(
      tile('saved a step of a sequence', bytesText(residuals.bytes_per_step),
           `${bytesText(residuals.bytes_per_step_of_batch)} of the batch`),
      tile('saved in a call', bytesText(residuals.bytes), plural(data.steps, 'step')),
      tile('predicted time a step', timeText(seconds(forward) + seconds(backward)),
           `${timeText(seconds(forward))} forward, ${timeText(seconds(backward))} backward`));
  byId('residuals-table').append(residualTable(residuals.values));
}

/** Buttons that show one half's plan below, the forward one first. */
function drawHalves(data, draw) {
  const buttons = ['forward', 'backward'].map((half) => {
    const button = html('button', { type: 'button', id: `half-${half}` }, `The ${half} half`);
    button.addEventListener('click', () => show(half));
    return button;
  });
  const show = (half) => {
    for (const button of buttons) {
      button.setAttribute('aria-pressed', button.id === `half-${half}`);
    }
    draw(data[half]);
  };
  byId('halves').append(...buttons);
  show(location.hash === '#half-backward' ? 'backward' : 'forward');
}
