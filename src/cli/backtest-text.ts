import type { AccountBacktest, AlertResult, BacktestOutcome, Firing } from '../app/backtest/backtest.ts';
import { printable } from '../kit/text.ts';
import { toTable } from './table.ts';

/** A minute of UTC: `2026-11-18 14:02`. */
export const moment = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
/** The same without its year. */
const short = (ms: number) => moment(ms).slice(5);

const whole = (value: number) => value.toLocaleString('en-US');
const number = (value: number) => String(Number(value.toPrecision(4)));
/** Small shares to a tenth of a percent. */
function percent(share: number): string {
  const exact = share * 100;
  return `${Math.abs(exact) < 10 ? Math.round(exact * 10) / 10 : Math.round(exact)} %`;
}
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

/** The time in which any of them fired: alerts of several series fire at the same time. They are ordered by their begin. */
function together(firings: readonly Firing[], end: number): number {
  let [sum, until] = [0, Number.NEGATIVE_INFINITY];
  for (const { from, to = end } of firings) {
    sum += Math.max(0, to - Math.max(from, until));
    until = Math.max(until, to);
  }
  return sum;
}

/** Of what still fires at the end of the range, the time until then counts. */
function timesOf(firings: readonly Firing[], end: number) {
  const lengths = firings.map(({ from, to = end }) => to - from);
  const [first] = firings;
  const isOpen = firings.some(({ to }) => to === undefined);
  return [
    span(together(firings, end)),
    span(Math.max(...lengths)),
    first ? short(first.from) : '',
    isOpen ? 'still fires' : short(Math.max(...firings.map(({ to = end }) => to))),
  ];
}

const TIMES = ['in all', 'longest', 'first began', 'last ended'];

/** Columns that one rule fills, whatever became of it. */
function columnsOf({ firings, firingsLeftOut = 0, verdict }: Rule, end: number): string[] {
  if (firings.length === 0) return [verdict === 'quiet' ? 'never' : '?', '', '', '', ''];
  return [whole(firings.length + firingsLeftOut), ...timesOf(firings, end)];
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

type Rule = Pick<AlertResult, 'name' | 'firings' | 'verdict'> & Partial<Pick<AlertResult, 'firingsLeftOut'>>;

/** Tables of alerts, one for each kind: shipped ones have long names. */
function ruleTable(what: string, rules: readonly Rule[], end: number): string {
  const rows = rules.map(rule => [rule.name, ...columnsOf(rule, end)]);
  return toTable([what, 'fired', ...TIMES], rows, ['fired', 'in all', 'longest']);
}

/** A value as a person writes it where the rule is set. */
function valueText({ kind }: Pick<AlertResult, 'kind'>, value: number): string {
  if (kind === 'age') return span(value * 1000);
  return kind === 'ratio' ? percent(value) : number(value);
}

/** The next less sensitive threshold that would have fired less than half as often, and the first that would have been quiet. */
function thresholdText(result: AlertResult): string[] {
  const { name, threshold, firings, firingsLeftOut, stricter } = result;
  const all = firings.length + firingsLeftOut;
  if (threshold === undefined || firings.length === 0 || stricter.length === 0) return [];
  const text = (value: number) => valueText(result, value);
  const times = (fired: number) => plural(fired, 'time');
  const fewer = stricter.find(({ fired }) => fired > 0 && fired <= all / 2);
  const quiet = stricter.find(({ fired }) => fired === 0);
  const last = stricter.at(-1)?.threshold ?? threshold;
  const said = [
    `${text(threshold)} fired ${times(all)}`,
    ...(fewer ? [`${text(fewer.threshold)} would have fired ${times(fewer.fired)}`] : []),
    quiet ? `${text(quiet.threshold)} never` : `even ${text(last)} would have fired`,
  ];
  return [`${name}: ${said.join('; ')}`];
}

/** What the value came to, where the rule was quiet or more is not known. */
function reachedText(result: AlertResult): string[] {
  const { name, verdict, isLeast, extreme, threshold } = result;
  if (threshold === undefined || (verdict !== 'quiet' && !isLeast) || extreme === undefined) return [];
  const least = isLeast ? 'at least ' : '';
  return [`${name}: reached ${least}${valueText(result, extreme)}; threshold ${valueText(result, threshold)}`];
}

function noteOf(result: AlertResult): string[] {
  const { name, verdict, because, isLeast, unknownFor, firings, firingsLeftOut } = result;
  const times = `${name}: times are those of ${whole(firings.length)} firings, and leave out ${whole(firingsLeftOut)} more`;
  const notes = [...(firingsLeftOut > 0 ? [times] : []), ...thresholdText(result), ...reachedText(result)];
  if (because === undefined) return notes;
  const what = verdict === 'unknown' ? 'unknown' : isLeast ? 'may have fired more' : `unknown for ${span(unknownFor)}`;
  return [...notes, `${name}: ${what}: ${because}`];
}

function cancelText({ autoCancel, autoCancelEntries: { judged, leftOut } }: AccountBacktest): string[] {
  if (autoCancel.length === 0) return [];
  const rows = autoCancel.map(({ rule, verdict, planned, open }) => [
    rule,
    verdict === 'unknown' ? '?' : whole(planned.length),
    planned[0] ? short(planned[0].at) : '',
    whole(open),
  ]);
  const limited = `these numbers are the least: of the dead letters that the rules may be about, the first ${whole(judged)} were judged, and ${whole(leftOut)} more were not`;
  const notes = autoCancel.flatMap(({ rule, verdict, because, skipped }) => [
    `${rule}: ${verdict === 'unknown' ? 'unknown' : 'at least'}: ${because}`,
    ...skipped.map(({ reason, count }) => `${rule}: left alone, ${reason}: ${plural(count, 'time')}`),
  ]);
  const head = ['auto-cancel rule', 'would cancel', 'first', 'may be stuck now'];
  return [
    toTable(head, rows, ['would cancel', 'may be stuck now']),
    ...[...(leftOut > 0 ? [limited] : []), ...notes].map(indented),
  ];
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
    printable(`${account}: ${moment(judgedFrom ?? from)} to ${moment(to)} UTC`),
    `${read.join(', ')}, ${plural(requests, 'call')}`,
    ...(rejected > 0 ? [`${plural(rejected, 'row')} could not be read: what they said is missing`] : []),
  ];
  if (judgedFrom === undefined) {
    return [...head, 'unknown: the event log lists nothing in this range'].join('\n');
  }
  if (judgedFrom > from + 60_000) {
    head.push(`unknown before that: from ${moment(from)} until then the event log lists nothing`);
  }
  return [
    ...head,
    '',
    budgetTable(result),
    '',
    ruleTable(
      'shipped alert',
      result.burns.map(burn => ({ ...burn, verdict: 'quiet' })),
      to,
    ),
    ...(result.alerts.length > 0 ? ['', ruleTable('alert', result.alerts, to)] : []),
    ...result.alerts.flatMap(noteOf).map(indented),
    ...(result.autoCancel.length > 0 ? ['', ...cancelText(result)] : []),
  ].join('\n');
}
