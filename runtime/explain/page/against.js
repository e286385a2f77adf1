// What differs from an explanation that was written before.

const UNIT_TEXT = {
  seconds: timeText, operations: flopText, bytes: bytesText, count: countText,
};

function againstTable(columns, rows) {
  return html('div', { class: 'card scroll', tabindex: 0, role: 'group', 'aria-label': columns[0] },
              html('table', {}, [
                html('thead', {}, html('tr', {}, columns.map((name) => (
                  html('th', { scope: 'col' }, name))))),
                html('tbody', {}, rows),
              ]));
}

function againstSide(side) {
  if (side === null) return html('td', {}, '–');
  const measured = side.measured_seconds === null ? ''
    : `, ${timeText(side.measured_seconds)} measured`;
  return html('td', {}, [
    `${side.id}: ${timeText(side.seconds)} a call${measured}`,
    html('div', { class: 'strategy' }, side.strategy),
  ]);
}

function drawAgainst({ against }) {
  const hidden = against === null;
  byId('against').hidden = hidden;
  byId('against-link').hidden = hidden;
  if (hidden) return;
  byId('against-text').textContent =
      `${against.name}, of rnnc ${against.version}, and now. ` +
      (against.settings.length ? '' : 'The same was asked for. ') +
      `Launches as before: ${against.alike}.`;
  const cell = (text) => html('td', {}, text || '–');
  const tables = byId('against-tables');
  if (against.settings.length) {
    tables.append(againstTable(['asked for', 'then', 'now'], against.settings.map(
        ({ what, then, now }) => html('tr', { class: 'setting' }, [what, then, now].map(cell)))));
  }
  const columns = ['of a step', 'then', 'now', 'of then'];
  tables.append(againstTable(columns, against.figures.map(({ what, unit, then, now }) => {
    const text = UNIT_TEXT[unit];
    const ratio = then > 0 ? (now / then).toFixed(2) : '';
    return html('tr', { class: 'figure' }, [what, text(then), text(now), ratio].map(cell));
  })));
  if (against.launches.length) {
    tables.append(againstTable(['launch', 'then', 'now'], against.launches.map((launch) => (
      html('tr', { class: 'other-launch' }, [
        cell(launch.what), againstSide(launch.then), againstSide(launch.now)])))));
  }
}
