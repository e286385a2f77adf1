// What the machine can do at each arithmetic intensity, and what each launch is predicted to.

/** Labels of points, those at one place together. */
function labelGroups(labels) {
  const groups = [];
  for (const label of labels) {
    const near = groups.find((group) => (
      Math.abs(group.x - label.x) < 30 && Math.abs(group.y - label.y) < 14));
    if (near) {
      near.text += `, ${label.text}`;
    } else {
      groups.push({ ...label });
    }
  }
  return groups;
}

/** Launches that compute, with their arithmetic intensity and predicted rate. */
function findPoints(data) {
  return data.stages.flatMap((stage) => stage.launches.map((launch) => ({
    stage, launch, intensity: launch.cost.flops / launch.cost.bytes,
    rate: launch.cost.flops / launch.cost.seconds,
  }))).filter((point) => point.rate > 0);
}

/** Logarithmic axes around all points and the corners of the roofs, and their grid. */
function makeAxes(machine, points, [width, height]) {
  const [left, right, top, bottom] = [96, width - 20, 18, height - 46];
  const ridge = machine.product_rate / machine.memory_bandwidth;
  const intensities = points.map((point) => point.intensity);
  const rates = points.map((point) => point.rate);
  const lowX = Math.floor(Math.log10(Math.min(0.1, ...intensities)));
  const highX = Math.ceil(Math.log10(Math.max(10 * ridge, ...intensities)));
  const lowY = Math.floor(Math.log10(Math.min(machine.product_rate / 1e3, ...rates)));
  const highY = Math.ceil(Math.log10(machine.product_rate) + 0.1);
  const x = (value) => left + (right - left) * (Math.log10(value) - lowX) / (highX - lowX);
  const y = (value) => bottom - (bottom - top) * (Math.log10(value) - lowY) / (highY - lowY);

  const text = (at, attributes) => svg('text', { class: 'soft', ...attributes }, at);
  const grid = [text('FLOP per byte',
                     { x: (left + right) / 2, y: height - 8, 'text-anchor': 'middle' })];
  for (let power = lowX; power <= highX; ++power) {
    const at = x(10 ** power);
    grid.push(svg('line', { class: 'grid', x1: at, x2: at, y1: top, y2: bottom }),
              text((10 ** power).toFixed(Math.max(0, -power)),
                   { x: at, y: bottom + 16, 'text-anchor': 'middle' }));
  }
  for (let power = lowY; power <= highY; ++power) {
    const at = y(10 ** power);
    grid.push(svg('line', { class: 'grid', x1: left, x2: right, y1: at, y2: at }),
              text(`${flopText(10 ** power)}/s`, { x: left - 8, y: at + 4, 'text-anchor': 'end' }));
  }
  return { x, y, left, right, top, low: { x: 10 ** lowX, y: 10 ** lowY }, grid };
}

/** A bandwidth up to where a rate of arithmetic is the limit. */
function drawRoof({ x, y, right, low }, bandwidth, rate, kind) {
  const from = Math.max(low.x, low.y / bandwidth);
  return svg('path', {
    class: `roof ${kind}`,
    d: `M${x(from)},${y(from * bandwidth)}L${x(rate / bandwidth)},${y(rate)}H${right}`,
  });
}

function drawRoofs(machine, axes) {
  const label = (rate, text) => svg('text', {
    class: 'soft', x: axes.right - 4, y: axes.y(rate) - 6, 'text-anchor': 'end',
  }, `${text} ${flopText(rate)}/s`);
  const roofs = [
    drawRoof(axes, machine.memory_bandwidth, machine.product_rate, 'main'),
    drawRoof(axes, machine.cache_bandwidth, machine.product_rate, 'minor'),
    label(machine.product_rate, 'products'),
    svg('text', { class: 'soft', x: axes.left + 8, y: axes.top + 14 },
        `solid: memory ${rateText(machine.memory_bandwidth)}; ` +
        `dashed: cache ${rateText(machine.cache_bandwidth)}`),
  ];
  if (machine.elementwise_rate === machine.product_rate) return roofs;
  return [
    ...roofs,
    drawRoof(axes, machine.memory_bandwidth, machine.elementwise_rate, 'minor'),
    label(machine.elementwise_rate, 'other arithmetic'),
  ];
}

function drawPoint({ stage, launch, intensity, rate }, { x, y }, callSeconds) {
  const share = stage.domain === 'once' ? 0 : launch.cost.seconds * launch.runs / callSeconds;
  return svg('g', { style: stageStyle(stageKey(stage)) }, [
    svg('title', {}, `${launch.id} ${launch.what}: ${intensity.toPrecision(3)} FLOP per byte, ` +
        `${flopText(rate)}/s, ${launch.bound} bound`),
    svg('circle', {
      class: 'point', cx: x(intensity), cy: y(rate), r: 5 + 9 * Math.sqrt(Math.min(1, share)),
    }),
  ]);
}

function drawRoofline(data) {
  const points = findPoints(data);
  const others = data.stages.flatMap((stage) => stage.launches).length - points.length;
  byId('roofline-text').textContent =
      'Launches by arithmetic for each byte and predicted rate; large ones take much of a call. ' +
      'The nearer to a roof, the nearer to what the machine allows; what is far below spends its ' +
      `time on latency.${others ? ` ${others} that only move data are not drawn.` : ''}`;
  const size = [1180, 460];
  const axes = makeAxes(data.machine, points, size);
  const labels = labelGroups(points.map(({ launch, intensity, rate }) => (
    { text: launch.id, x: axes.x(intensity), y: axes.y(rate) }))).map((group) => svg(
      'text', { x: group.x + 14, y: group.y + 22 }, group.text));
  byId('roofline-plot').append(drawing(
      ...size, 'Roofline',
      `${points.length} launches under a roof of ${flopText(data.machine.product_rate)}/s.`, [
        ...axes.grid, ...drawRoofs(data.machine, axes),
        ...points.map((point) => drawPoint(point, axes, data.totals.seconds)), ...labels,
      ]));
}
