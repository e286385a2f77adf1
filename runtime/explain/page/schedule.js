// Stages as cards, launches as rows of their tables.

const PER_RUN = { once: 'a call', sequence: 'a chunk', step: 'a step', last: 'a call' };
const CLASS_TEXT = {
  linear: 'every update is affine in its states',
  elementwise: 'no product or reduction inside: each channel on its own',
  block: 'block-diagonal products: each block on its own',
  dense: 'every unit of a step needs others of the step before',
};

function operationsText(operations) {
  return Object.entries(operations).map(([name, n]) => n === 1 ? name : `${n} ${name}`).join(', ');
}

function launchNotes(launch) {
  const notes = launch.notes.map((note) => html('li', {}, [
    html('b', {}, note.kind), ` ${note.text}`,
  ]));
  const operations = operationsText(launch.operations);
  if (operations) notes.push(html('li', {}, [html('b', {}, 'operations'), ` ${operations}`]));
  return notes.length ? html('ul', {}, notes) : '';
}

/** Buttons that show its lines in the text. */
function launchLines(launch) {
  if (launch.lines.length === 0) return '';
  return html('div', { class: 'lines' }, launch.lines.map((line) => html('button', {
    type: 'button', class: 'launch-line mono', 'data-line': line,
  }, line)));
}

/** Cells of a measured call: the time of a run, and how it compares with the prediction. */
function measuredCells(launch) {
  if (launch.measured_seconds === null) return [html('td', {}), html('td', {})];
  const seconds = launch.measured_seconds / launch.runs;
  return [
    html('td', { class: 'number measured' }, timeText(seconds)),
    html('td', { class: 'number' }, `${(seconds / launch.cost.seconds).toFixed(1)}×`),
  ];
}

function launchRow(launch, call) {
  const { cost } = launch;
  const seconds = call.measured ? launch.measured_seconds : cost.seconds * launch.runs;
  const share = call.seconds > 0 ? seconds / call.seconds : 0;
  const percent = `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
  const number = (text) => html('td', { class: 'number' }, text);
  return html('tr', { class: 'launch', 'data-id': launch.id }, [
    html('td', {}, html('button', {
      type: 'button', class: 'launch-id mono', 'data-id': launch.id, 'aria-pressed': 'false',
      'aria-label': `Launch ${launch.id}: light its lines`,
    }, launch.id)),
    html('td', {}, [
      html('div', { class: 'what' }, launch.what),
      html('div', { class: 'strategy' }, launch.strategy),
      launchLines(launch),
      launchNotes(launch),
    ]),
    number(flopText(cost.flops)),
    number(bytesText(cost.bytes)),
    html('td', { class: 'number' }, [
      timeText(cost.seconds),
      html('div', { class: 'share', title: `${percent} of a call` },
           html('i', { style: `width: ${Math.min(100, 100 * share)}%` })),
    ]),
    ...(call.measured ? measuredCells(launch) : []),
    number(timeText(cost.floor_seconds)),
    html('td', {}, html('span', { class: 'bound' }, launch.bound)),
    number(countText(launch.runs)),
  ]);
}

/** What shares are of: the measured call, or the predicted one. */
function callOf(stage, data) {
  if (stage.domain === 'once') return { measured: false, seconds: data.once.seconds };
  if (data.measured) return { measured: true, seconds: data.measured.timed_seconds };
  return { measured: false, seconds: data.totals.seconds };
}

function stageCard(stage, call) {
  const badges = [html('span', { class: 'badge' }, stage.domain)];
  if (stage.recurrence !== 'none') {
    badges.unshift(html('span', { class: 'badge class', title: CLASS_TEXT[stage.recurrence] },
                        stage.recurrence));
  }
  const badge = (text) => badges.push(html('span', { class: 'badge' }, text));
  if (stage.phases > 0) badge(plural(stage.phases, 'phase'));
  if (stage.lag > 0) badge(`lag ${stage.lag}`);
  if (stage.sweep > 0) badge(`sweep ${stage.sweep}`);
  const columns = ['launch', 'computes', 'arithmetic', 'bytes', `predicted ${PER_RUN[stage.domain]}`,
    ...(call.measured ? ['measured', 'of predicted'] : []), 'floor', 'bound', 'runs a call'];
  const isNumber = (name) => !['launch', 'computes', 'bound'].includes(name);
  const rows = stage.launches.map((launch) => launchRow(launch, call));
  return html('article', { class: 'card', style: stageStyle(stageKey(stage)) }, [
    html('div', { class: 'head' }, [
      html('h3', {}, [`${stage.id}  ${stage.title}`, ...badges]),
      html('p', {}, stage.reason),
    ]),
    html('div', {
      class: 'scroll', tabindex: 0, role: 'group', 'aria-label': `Launches of stage ${stage.id}`,
    }, html('table', {}, [
      html('thead', {}, html('tr', {}, columns.map((name) => (
        html('th', { scope: 'col', class: isNumber(name) ? 'number' : '' }, name))))),
      html('tbody', {}, rows),
    ])),
  ]);
}

function drawSchedule(data) {
  byId('stages').append(...data.stages.map((stage) => stageCard(stage, callOf(stage, data))));
}
