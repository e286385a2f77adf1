// The workspace over the launches, and every buffer in a table.

function memoryText({ memory, steps }) {
  const saved = memory.fixed_bytes_without_reuse - memory.workspace_bytes_fixed;
  const perStep = memory.workspace_bytes_per_step === 0 ? ''
    : `, of them ${bytesText(memory.workspace_bytes_per_step)} for each of ${steps} steps`;
  const reuse = saved > 0 ? ` Without reuse it would be ${bytesText(saved)} more.` : '';
  return `The workspace has ${bytesText(memory.workspace_bytes)}${perStep}; at most ` +
      `${bytesText(memory.live_bytes)} of what does not grow with the steps is in use at a time.` +
      `${reuse} ${bytesText(memory.program_bytes)} stay in the program. Buffers share memory ` +
      'where they are never in use together; stages of different lags may run at the same time.';
}

function drawMap(data, blocks) {
  const { memory } = data;
  const [width, left, top, bottom] = [1180, 90, 14, 40];
  const height = Math.min(560, Math.max(200, 34 * blocks.length)) + top + bottom;
  const first = Math.min(...blocks.map((block) => block.first));
  const x = (launch) => left + (width - left - 10) * (launch - first) / (memory.launches - first);
  const y = (offset) => top + (height - top - bottom) * offset / memory.workspace_bytes_fixed;

  const unit = 1024 ** Math.floor(Math.log2(memory.workspace_bytes_fixed) / 10);
  const marks = ticks(memory.workspace_bytes_fixed, 6, unit).flatMap((bytes) => [
    svg('line', { class: 'grid', x1: left, x2: width - 10, y1: y(bytes), y2: y(bytes) }),
    svg('text', { class: 'soft', x: left - 8, y: y(bytes) + 4, 'text-anchor': 'end' },
        bytesText(bytes)),
  ]);
  let launch = 0;
  for (const stage of data.stages) {
    const count = stage.launches.reduce((sum, entry) => sum + entry.count, 0);
    if (count > 0 && launch >= first) {
      marks.push(
          svg('line', {
            class: 'grid', x1: x(launch), x2: x(launch), y1: top, y2: height - bottom,
          }),
          svg('text', {
            class: 'soft', x: x(launch + count / 2), y: height - 22, 'text-anchor': 'middle',
          }, stage.id));
    }
    launch += count;
  }
  marks.push(svg('text', {
    class: 'soft', x: (left + width) / 2, y: height - 4, 'text-anchor': 'middle',
  }, 'launches, by stage'));

  const rects = blocks.map((block) => {
    const frame = {
      x: x(block.first), y: y(block.offset), width: x(block.last + 1) - x(block.first),
      height: Math.max(1, y(block.bytes) - top),
    };
    const letters = Math.floor(frame.width / 7) - 1;
    return svg('g', { style: stageStyle(stageKey(data.stages[block.stage])) }, [
      svg('title', {}, `${block.name}: ${bytesText(block.bytes)} at ${block.offset}`),
      svg('rect', { class: 'block', ...frame, rx: 2 }),
      frame.height >= 14 && letters > 3
        ? svg('text', { x: frame.x + 6, y: frame.y + frame.height / 2 + 4 },
              shortened(block.name, letters))
        : null,
    ]);
  });
  byId('memory-plot').append(drawing(
      width, height, 'Memory map',
      `${plural(blocks.length, 'buffer')} in ${bytesText(memory.workspace_bytes_fixed)}.`,
      [...marks, ...rects]));
}

function memoryTable(blocks, launches) {
  const columns = ['buffer', 'where', 'type', 'offset', 'bytes', 'in use'];
  const rows = blocks.map((block) => html('tr', {}, [
    html('td', {}, block.name),
    html('td', {}, block.place),
    html('td', {}, block.dtype),
    html('td', { class: 'number' }, `${block.offset}`),
    html('td', { class: 'number' }, bytesText(block.bytes)),
    html('td', {}, block.first === 0 && block.last + 1 === launches ? 'always'
      : `launch ${block.first + 1} to ${block.last + 1}`),
  ]));
  return html('div', { class: 'card scroll' }, html('table', {}, [
    html('thead', {}, html('tr', {}, columns.map((name) => html(
        'th', { scope: 'col', class: ['offset', 'bytes'].includes(name) ? 'number' : '' }, name)))),
    html('tbody', {}, rows),
  ]));
}

function drawMemory(data) {
  byId('memory-text').textContent = memoryText(data);
  const { blocks } = data.memory;
  const mapped = blocks.filter((block) => block.place === 'workspace');
  if (mapped.length > 0) drawMap(data, mapped);
  byId('memory-plot').hidden = mapped.length === 0;
  if (blocks.length > 0) byId('memory-table').append(memoryTable(blocks, data.memory.launches));
}
