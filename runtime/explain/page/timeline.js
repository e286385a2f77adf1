// Stages over time: which chunk each is at in each wave.

function timelineText({ waves, steps, chunk }) {
  const text = `${plural(waves.chunks, 'chunk')} of ${plural(chunk, 'step')} for ${steps} steps, ` +
      `in ${plural(waves.total, 'wave')}. `;
  const overlap = waves.lags === 0 ? 'Stages run one after the other.'
    : `Stages of different lags run side by side, the last ${plural(waves.lags, 'chunk')} behind ` +
      'the first.';
  return text + overlap + (waves.cut ? ' Only the first waves are drawn.' : '');
}

function drawTimeline(data) {
  byId('timeline-text').textContent = timelineText(data);
  const { bars } = data.waves;
  const shown = data.stages.map((stage, at) => ({ stage, at })).filter(
      ({ at }) => bars.some((bar) => bar.stage === at));
  if (shown.length === 0) return;
  const [left, top, row, width] = [240, 8, 30, 1180];
  const height = top + shown.length * row + 30;
  const end = Math.max(...bars.map((bar) => bar.start + bar.seconds));
  const x = (seconds) => left + (width - left - 40) * seconds / end;
  const line = new Map(shown.map(({ at }, index) => [at, top + index * row]));

  const marks = ticks(end, 8).flatMap((time) => [
    svg('line', { class: 'grid', x1: x(time), x2: x(time), y1: top, y2: height - 28 }),
    svg('text', { class: 'soft', x: x(time), y: height - 12, 'text-anchor': 'middle' },
        timeText(time)),
  ]);
  const labels = shown.map(({ stage, at }) => svg('text', { x: 0, y: line.get(at) + 19 }, [
    svg('title', {}, stage.title), `${stage.id}  ${shortened(stage.title, 28)}`,
  ]));
  const rects = bars.map((bar) => {
    const stage = data.stages[bar.stage];
    const first = bar.chunk * data.chunk;
    const last = Math.min(first + data.chunk, data.steps) - 1;
    return svg('rect', {
      class: 'bar', style: stageStyle(stageKey(stage)), x: x(bar.start), y: line.get(bar.stage) + 4,
      width: Math.max(0.8, x(bar.start + bar.seconds) - x(bar.start)), height: row - 8, rx: 2,
    }, svg('title', {}, `${stage.title}, chunk ${bar.chunk} (steps ${first} to ${last}), wave ` +
        `${bar.wave}: ${timeText(bar.seconds)}`));
  });
  byId('timeline-plot').append(drawing(
      width, height, 'Wave timeline',
      `${plural(shown.length, 'stage')} over ${timeText(end)}; ${timelineText(data)}`,
      [...marks, ...labels, ...rects]));
}
