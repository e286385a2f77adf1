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
      `${plural(against.alike, 'launch').replace(/hs$/, 'hes')} as before.`;
  const cell = (text) => html('td', {}, text || '–');
  const tables = byId('against-tables');
  if (against.settings.length) {
    tables.append(againstTable(['asked for', 'then', 'now'], against.settings.map((setting) => (
      html('tr', { class: 'setting' }, [cell(setting.what), cell(setting.then), cell(setting.now)])))));
  }
  tables.append(againstTable(['of a step', 'then', 'now', 'of then'], against.figures.map((figure) => {
    const text = UNIT_TEXT[figure.unit];
    const ratio = figure.then > 0 ? (figure.now / figure.then).toFixed(2) : '';
    return html('tr', { class: 'figure' }, [
      cell(figure.what), cell(text(figure.then)), cell(text(figure.now)), cell(ratio)]);
  })));
  if (against.launches.length) {
    tables.append(againstTable(['launch', 'then', 'now'], against.launches.map((launch) => (
      html('tr', { class: 'other-launch' }, [
        cell(launch.what), againstSide(launch.then), againstSide(launch.now)])))));
  }
}
