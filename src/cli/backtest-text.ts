import type { AccountBacktest, AlertResult, BacktestOutcome, Firing } from '../app/backtest/backtest.ts';
import { printable } from '../kit/text.ts';
import { toTable } from './table.ts';

/** A minute of UTC: `2026-11-18 14:02`. */
export const moment = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
/** The same without its year. */
const short = (ms: number) => moment(ms).slice(5);

const whole = (value: number) => value.toLocaleString('en-US');
const number = (value: number) => String(Number(value.toPrecision(4)));
const percent = (share: number) => `${number(Math.round(share * 1000) / 10)} %`;
const plural = (count: number, what: string) => `${whole(count)} ${what}${count === 1 ? '' : 's'}`;

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const;

/** At most two units: `1h12m`. */
function span(ms: number): string {
  const first = UNITS.findIndex(([, size]) => ms >= size);
  if (first === -1) return '0s';
  let left = ms;
  return UNITS.slice(first, first + 2)
    .map(([unit, size]) => {
      const count = Math.floor(left / size);
      left -= count * size;
      return count > 0 ? `${count}${unit}` : '';
    })
    .join('');
}

/** Of what still fires at the end of the range, the time until then counts. */
function timesOf(firings: readonly Firing[], end: number) {
  const lengths = firings.map(({ from, to = end }) => to - from);
  const [first] = firings;
  const isOpen = firings.some(({ to }) => to === undefined);
  return [
    span(lengths.reduce((sum, length) => sum + length, 0)),
    span(Math.max(...lengths)),
    first ? short(first.from) : '',
    isOpen ? 'still fires' : short(Math.max(...firings.map(({ to = end }) => to))),
  ];
}

const TIMES = ['in all', 'longest', 'first began', 'last ended'];

/** Columns that one rule fills, whatever became of it. */
function columnsOf(firings: readonly Firing[], verdict: AlertResult['verdict'], end: number): string[] {
  if (firings.length === 0) return [verdict === 'quiet' ? 'never' : '?', '', '', '', ''];
  return [plural(firings.length, 'time'), ...timesOf(firings, end)];
}

function budgetTable({ budgets }: AccountBacktest): string {
  const rows = budgets.map(({ objective, target, bad, finished, left, worst }) => [
    objective.replace('_', ' '),
    percent(target),
    `${whole(bad)} of ${whole(finished)}`,
    left === undefined ? '–' : percent(1 - left),
    left === undefined ? '–' : percent(left),
    worst ? `${short(worst.from)}: ${percent(worst.burnt)}` : '–',
  ]);
  return toTable(['error budget', 'target', 'bad', 'burnt', 'left', 'worst hour'], rows, [
    'target',
    'bad',
    'burnt',
    'left',
  ]);
}

function ruleTable({ burns, alerts, to }: AccountBacktest): string {
  const rows = [
    ...burns.map(({ name, firings }) => [`${name} (shipped)`, ...columnsOf(firings, 'quiet', to)]),
    ...alerts.map(({ name, firings, verdict }) => [name, ...columnsOf(firings, verdict, to)]),
  ];
  return toTable(['alert', 'fired', ...TIMES], rows, ['fired', 'in all', 'longest']);
}

/** The next less sensitive threshold that would have fired less than half as often, and the first that would have been quiet. */
function thresholdText({ name, threshold, firings, stricter }: AlertResult): string[] {
  if (threshold === undefined || firings.length === 0 || stricter.length === 0) return [];
  const fewer = stricter.find(({ fired }) => fired > 0 && fired <= firings.length / 2);
  const quiet = stricter.find(({ fired }) => fired === 0);
  const said = [
    `${number(threshold)} fired ${plural(firings.length, 'time')}`,
    ...(fewer ? [`${number(fewer.threshold)} would have fired ${plural(fewer.fired, 'time')}`] : []),
    quiet
      ? `${number(quiet.threshold)} never`
      : `even ${number(stricter.at(-1)?.threshold ?? threshold)} would have fired`,
  ];
  return [`${name}: ${said.join('; ')}`];
}

function noteOf(result: AlertResult): string[] {
  const { name, verdict, because, threshold, extreme, unknownFor } = result;
  const reached =
    verdict === 'quiet' && threshold !== undefined
      ? [
          `${name}: ${extreme === undefined ? 'no value at all' : `reached ${number(extreme)}`}; threshold ${number(threshold)}`,
        ]
      : [];
  if (because === undefined) return [...thresholdText(result), ...reached];
  const what = verdict === 'unknown' ? 'unknown' : unknownFor > 0 ? `unknown for ${span(unknownFor)}` : 'at least';
  return [...thresholdText(result), ...reached, `${name}: ${what}: ${because}`];
}

function cancelText({ autoCancel }: AccountBacktest): string[] {
  if (autoCancel.length === 0) return [];
  const rows = autoCancel.map(({ rule, verdict, planned, open }) => [
    rule,
    verdict === 'unknown' ? '?' : whole(planned.length),
    planned[0] ? short(planned[0].at) : '',
    whole(open),
  ]);
  const notes = autoCancel.flatMap(({ rule, because, skipped }) => [
    ...(because === undefined ? [] : [`${rule}: unknown beyond that: ${because}`]),
    ...skipped.map(({ reason, count }) => `${rule}: left alone, ${reason}: ${plural(count, 'time')}`),
  ]);
  const head = ['auto-cancel rule', 'would cancel', 'first', 'may be stuck now'];
  return [toTable(head, rows, ['would cancel', 'may be stuck now']), ...notes.map(indented)];
}

/** Long lines go on below, a few blanks in. */
function indented(text: string): string {
  const lines: string[] = [];
  let line = ' ';
  for (const word of printable(text).split(' ')) {
    if (line.length + word.length >= 78 && line.trim() !== '') {
      lines.push(line);
      line = '   ';
    }
    line += ` ${word}`;
  }
  return [...lines, line].join('\n');
}

/** What became of one account, in tables that fit into 80 columns as long as names do. */
export function backtestText({ account, result, failure, requests }: BacktestOutcome): string {
  if (!result) return printable(`${account}: failed: ${failure ?? ''} (${plural(requests, 'call')})`);
  const { from, to, judgedFrom, events, rejected, deadLetters } = result;
  const read = [plural(events, 'event'), ...(deadLetters === undefined ? [] : [plural(deadLetters, 'dead letter')])];
  const head = [
    printable(
      `${account}: ${moment(judgedFrom ?? from)} to ${moment(to)} UTC, ${read.join(', ')}, ${plural(requests, 'call')}`,
    ),
    ...(rejected > 0 ? [`${plural(rejected, 'row')} could not be read: what they said is missing`] : []),
  ];
  if (judgedFrom === undefined) {
    return [...head, 'unknown: the event log lists nothing in this range'].join('\n');
  }
  if (judgedFrom > from + 60_000) {
    head.push(`unknown before that: the event log lists nothing from ${moment(from)} on until then`);
  }
  return [
    ...head,
    '',
    budgetTable(result),
    '',
    ruleTable(result),
    ...result.alerts.flatMap(noteOf).map(indented),
    ...(result.autoCancel.length > 0 ? ['', ...cancelText(result)] : []),
  ].join('\n');
}
