import { age } from './age.js';
import { drawn, stacked } from './chart-data.js';
import { HEIGHT, HOUR, options, whenWords, words } from './chart-options.js';

/** Draws each `<figure data-chart="{…}">` (see chart-data.js) inside an element with `data-history`, the URL of the history. */

const REFRESH_MS = 60_000;
/** Maximum number of samples per request: one every five minutes for 48 h. */
const POINTS = 576;

/** Creates an element. Ignores undefined attributes. */
function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function frame(figure) {
  const spec = JSON.parse(figure.dataset.chart);
  const title = figure.querySelector('figcaption')?.textContent.trim() ?? '';
  const plot = element('div', {
    class: 'plot',
    tabindex: '0',
    role: 'slider',
    'aria-label': `${title}: time`,
    'aria-valuenow': '0',
  });
  const legend = element('ul', { class: 'legend' });
  const when = element('p', { class: 'when' });
  const rows = element('table');
  const table = element('details', {}, [
    element('summary', {}, ['The last 12 values as a table']),
    element('div', { class: 'wide' }, [rows]),
  ]);
  figure.append(legend, when, plot, table);
  return { figure, spec, title, plot, legend, when, rows, table };
}

const legendOf = lines =>
  lines.map(({ name, look }, index) => {
    const mark = element('i', { class: `line ${look ?? `line-${(index % 6) + 1}`}`, 'aria-hidden': 'true' });
    return { mark, item: element('li', {}, [mark, element('bdi', {}, [name]), ' ', element('b')]) };
  });

function tableOf(title, { times, lines, width }, kind) {
  const head = ['Time', ...lines.map(({ name }) => name)].map(name =>
    element('th', { scope: 'col', class: name === 'Time' ? undefined : 'num' }, [name]),
  );
  const body = times.slice(-12).map((time, index) => {
    const place = Math.max(0, times.length - 12) + index;
    const cells = lines.map(({ values }) => element('td', { class: 'num' }, [words(values[place], kind)]));
    return element('tr', {}, [element('th', { scope: 'row' }, [whenWords(time, width)]), ...cells]);
  });
  return [
    element('caption', { class: 'hidden' }, [title]),
    element('thead', {}, [element('tr', {}, head)]),
    element('tbody', {}, body.reverse()),
  ];
}

/** Returns data for uPlot: times, then lines in drawing order. Tall bars are drawn first, so that shorter ones cover them. */
function dataOf({ kind }, { times, lines, width }) {
  const order = [...lines.keys()];
  if (kind === 'stack') order.reverse();
  const columns = kind === 'stack' ? stacked(lines) : lines.map(({ values }) => values);
  const isStepped = kind === 'rate' || kind === 'quantile';
  // The last step needs an end.
  const ends = isStepped && times.length > 0 ? [times.at(-1) + width] : [];
  const data = order.map(index => (isStepped ? [...columns[index], columns[index].at(-1) ?? null] : columns[index]));
  return { order, data: [[...times, ...ends], ...data] };
}

/** Moves the cursor of a chart with the keyboard and by touch. */
function moveCursor(chart) {
  const { plot } = chart;
  plot.addEventListener('keydown', event => {
    const { drawing, shown, at } = chart;
    const last = shown.times.length - 1;
    const now = at ?? last;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const place = Math.min(last, Math.max(0, to));
    if (place >= 0) drawing?.setCursor({ left: drawing.valToPos(shown.times[place], 'x'), top: 0 }, true, true);
  });
  plot.addEventListener('pointermove', ({ pointerType, clientX }) => {
    const { drawing } = chart;
    if (pointerType === 'mouse' || !drawing) return;
    drawing.setCursor({ left: clientX - drawing.over.getBoundingClientRect().left, top: 0 }, true, true);
  });
}

function createChart(figure) {
  const { spec, title, plot, legend, when, rows, table } = frame(figure);
  /** `at`: index of the sample at the cursor; undefined selects the last sample. */
  const chart = { spec, plot, marks: [], ends: [0, 1], families: spec.lines.map(({ family }) => family), show, draw };
  Object.assign(chart, { shown: { times: [], lines: [], width: 0 }, drawing: undefined, at: undefined });

  /** Shows the values at an index, by default the last. */
  function show(index) {
    chart.at = index;
    const { times, lines, width } = chart.shown;
    const place = Math.min(index ?? times.length - 1, times.length - 1);
    for (const [line, { values }] of lines.entries()) {
      const value = legend.children[line]?.querySelector('b');
      if (value) value.textContent = words(values[place], spec.kind);
    }
    when.textContent = figure.classList.contains('empty')
      ? 'No data was recorded in this period.'
      : whenWords(times[place], width);
    plot.setAttribute('aria-valuemax', String(Math.max(0, times.length - 1)));
    plot.setAttribute('aria-valuenow', String(Math.max(0, place)));
    plot.setAttribute(
      'aria-valuetext',
      [when.textContent, ...lines.map(({ name, values }) => `${name} ${words(values[place], spec.kind)}`)].join('; '),
    );
  }

  function writeTable() {
    if (table.open) rows.replaceChildren(...tableOf(title, chart.shown, spec.kind));
  }

  function draw(view, ends) {
    const shown = drawn(spec, view, ...ends);
    Object.assign(chart, { shown, ends });
    const isEmpty = shown.lines.every(({ values }) => values.every(value => value === null));
    figure.classList.toggle('empty', isEmpty);
    const items = legendOf(shown.lines);
    legend.replaceChildren(...items.map(({ item }) => item));
    chart.drawing?.destroy();
    const { order, data } = dataOf(spec, shown);
    chart.marks = order.map(index => items[index].mark);
    chart.drawing = new uPlot(options(chart, shown), data, plot);
    show(chart.at !== undefined && chart.at < shown.times.length ? chart.at : undefined);
    writeTable();
  }

  moveCursor(chart);
  table.addEventListener('toggle', writeTable);
  new ResizeObserver(() => {
    const { drawing } = chart;
    if (drawing && plot.clientWidth !== drawing.width) drawing.setSize({ width: plot.clientWidth, height: HEIGHT });
  }).observe(plot);
  return chart;
}

function watch(root) {
  const charts = [...root.querySelectorAll('figure[data-chart]')].map(createChart);
  const families = [...new Set(charts.flatMap(chart => chart.families))]
    .map(name => `family=${encodeURIComponent(name)}`)
    .join('&');
  const buttons = [...root.querySelectorAll('button[data-hours]')];
  const note = root.querySelector('.chart-note');
  let hours = 48;
  let reading;

  function draw(view) {
    const to = Date.parse(view.now) / 1000;
    const from = Math.max(to - hours * HOUR, Math.min(view.times[0] ?? to, to - 300));
    for (const chart of charts) chart.draw(view, [from, to]);
    const [first] = view.times;
    const isShort = first !== undefined && first > to - hours * HOUR + 600;
    note.textContent = isShort ? `Recorded since ${whenWords(first, 0)}, ${age(first * 1000, to * 1000)}.` : '';
  }

  async function read() {
    reading?.abort();
    reading = new AbortController();
    const { signal } = reading;
    try {
      const response = await fetch(`${root.dataset.history}?${families}&over=${hours}h&points=${POINTS}`, { signal });
      if (!response.ok) throw new Error(`the agent returned status ${response.status}`);
      draw(await response.json());
    } catch (error) {
      if (!signal.aborted)
        note.textContent = `The history can’t be loaded (${error.message}). The page tries again in a minute.`;
    }
  }

  function choose(chosen) {
    hours = chosen;
    for (const button of buttons) button.setAttribute('aria-pressed', String(Number(button.dataset.hours) === hours));
    read();
  }
  for (const button of buttons) button.addEventListener('click', () => choose(Number(button.dataset.hours)));
  root.querySelector('.chart-range')?.removeAttribute('hidden');
  setInterval(() => document.visibilityState === 'visible' && read(), REFRESH_MS);
  document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && read());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
    charts.forEach(chart => void chart.drawing?.redraw(false)),
  );
  choose(hours);
}

for (const root of document.querySelectorAll('[data-history]')) watch(root);
