// Reads the data and draws each section.

function settingText(data) {
  const type = data.dtype + (data.tf32 ? ' (products may round to TF32)' : '');
  return `${type}, batch ${data.batch}, ${plural(data.steps, 'step')} in chunks of ` +
      `${data.chunk}, on ${data.machine.name}; passes: ${data.passes}`;
}

function tile(label, value, more) {
  return html('div', { class: 'tile' }, [
    html('div', { class: 'label' }, label),
    html('div', { class: 'value' }, value),
    html('div', { class: 'more' }, more),
  ]);
}

function drawTiles(data) {
  const { totals, naive, steps, memory, measured } = data;
  const floorShare = Math.round(100 * totals.floor_seconds / totals.seconds);
  const tiles = [
    tile('predicted time a step', timeText(totals.seconds / steps),
         `${timeText(totals.seconds)} for ${plural(steps, 'step')}`),
    tile('floor a step', timeText(totals.floor_seconds / steps),
         `${floorShare} % of the predicted time`),
    tile('launches a step', countText(totals.launches / steps),
         `${countText(totals.launches)} in a call`),
    tile('arithmetic a step', flopText(totals.flops / steps),
         `${bytesText(totals.bytes / steps)} moved`),
    tile('workspace', bytesText(memory.workspace_bytes),
         `${bytesText(memory.live_bytes)} in use at a time`),
  ];
  if (measured) {
    tiles.unshift(tile('measured time a step', timeText(measured.seconds / steps),
                       `median of ${plural(measured.runs, 'call')}; with launches timed ` +
                       timeText(measured.timed_seconds / steps)));
  }
  if (naive) {
    tiles.push(tile('a step without passes', timeText(naive.seconds / steps),
                    `${countText(naive.launches / steps)} launches, ` +
                    `${(naive.seconds / totals.seconds).toFixed(1)} times as long`));
  }
  byId('tiles').append(...tiles);
}

function drawFacts(data) {
  const list = (kind) => data.arrays.filter((array) => array.kind === kind)
      .map((array) => `${array.name} ${array.shape}`).join(', ');
  const params = data.arrays.filter((array) => array.kind === 'param');
  const facts = [
    ['inputs', list('input')], ['states', list('state')], ['outputs', list('output')],
    ['results', list('result')],
    ['params', `${plural(params.length, 'array')} of ${countText(data.param_elements)} elements`],
    ['machine', `${data.machine.name}: ${plural(data.machine.units, 'unit')}, ` +
        `${flopText(data.machine.product_rate)}/s in products, ` +
        `${rateText(data.machine.memory_bandwidth)} of memory, ` +
        `${timeText(data.machine.launch_seconds)} a launch, ` +
        `${timeText(data.machine.wave_seconds)} a wave`],
    ['once a call', data.once.seconds > 0
      ? `${timeText(data.once.seconds)}, and kept while the params stay` : ''],
  ].filter(([, text]) => text !== '');
  byId('facts').append(html('div', { class: 'tile', style: 'padding: 0' }, html(
      'dl', {}, facts.flatMap(([name, text]) => [html('dt', {}, name), html('dd', {}, text)]))));
}

const DRAWN = ['tiles', 'facts', 'legend', 'source-files', 'pictures', 'stages', 'timeline-plot',
  'roofline-plot', 'memory-plot', 'memory-table', 'against-tables'];

const PREDICTED_TEXT = 'Times are predictions of the cost model; a floor is what the machine’s ' +
    'arithmetic and memory allow. Nothing was run.';
const MEASURED_TEXT = 'Measured times of launches are of one call in which each was timed, and ' +
    'count while a launch ran on any thread. Predictions are the cost model’s; a floor is what ' +
    'the machine’s arithmetic and memory allow.';

/** All sections on one plan, in place of what they show. */
function drawPlan(data) {
  for (const id of DRAWN) byId(id).replaceChildren();
  byId('pictures').className = '';
  byId('setting').textContent = settingText(data);
  byId('origin').textContent = data.measured ? MEASURED_TEXT : PREDICTED_TEXT;
  data.stages.forEach((stage) => stageColour(stageKey(stage)));
  drawTiles(data);
  drawFacts(data);
  drawGraphs(data);
  drawSource(data);
  drawAgainst(data);
  drawSchedule(data);
  drawTimeline(data);
  drawRoofline(data);
  drawMemory(data);
}

function drawPage() {
  const data = JSON.parse(byId('data').textContent);
  document.title = `${data.name} – rnnc explain`;
  byId('name').textContent = data.name;
  if (data.residuals) {
    drawResiduals(data);
    drawHalves(data, drawPlan);
  } else {
    drawPlan(data);
  }
  document.documentElement.dataset.drawn = 'yes';
}

drawPage();
