/**
 * Checks that every number on /metrics was correct at some time during its walk, and that no counter decreases.
 */
import type { Process } from './agent.ts';
import { isClean, isReadable, type Round, type RoundRecord } from './record.ts';
import { MINUTE, SECOND, START } from './settings.ts';
import { type Entry, happened, isListed, type Shape, sizeAt, stateAt, type Truth } from './truth.ts';

export interface NumberWorld {
  readonly now: number;
  readonly truth: Truth;
  readonly shape: Shape;
  readonly record: RoundRecord;
  readonly process: Process;
}

type Samples = ReadonlyMap<string, number>;

export interface Scrape {
  readonly samples: Samples;
  /** Samples of counters and histograms, by series as written in the exposition. */
  readonly rising: Samples;
}

/** Families with counters of the process, which a restart resets. */
const OF_PROCESS = /^delivery_(?:watch_|api_|rows_rejected|lists_missing|auto_cancel_skipped|notifications)/;

export const outlasts = (series: string) => !OF_PROCESS.test(series);

/** Parses an exposition without checking its syntax. */
export function readScrape(text: string): Scrape {
  const samples = new Map<string, number>();
  const rising = new Map<string, number>();
  let isRising = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('# TYPE')) isRising = line.endsWith(' counter') || line.endsWith(' histogram');
    if (line === '' || line.startsWith('#')) continue;
    const at = line.lastIndexOf(' ');
    const [series, value] = [
      line.slice(0, at).replace('account="production"', '').replace('{,', '{').replace('{}', ''),
      Number(line.slice(at + 1)),
    ];
    (isRising ? rising : samples).set(series, value);
  }
  return { samples, rising };
}

/** Returns descriptions of series with a lower value than before. */
export function fallen(before: Samples, after: Samples, isSameProcess: boolean): string[] {
  const lower: string[] = [];
  for (const [series, value] of before) {
    const now = after.get(series);
    if (now !== undefined && now < value && (isSameProcess || outlasts(series)))
      lower.push(`${series} fell from ${value} to ${now}`);
  }
  return lower;
}

/**
 * Returns the instances of the account whose rounds may be exposed. Rounds of a previous instance may be exposed until
 * its successor completes a read.
 */
function sessionsOf({ record, process }: NumberWorld, collector: string): ReadonlySet<Process> {
  const sessions = new Set<Process>();
  const hasRead = (session: Process) =>
    record.ended.some(of => of.process === session && of.collector === collector && of.isObserved);
  for (let session: Process | undefined = process; session; session = hasRead(session) ? undefined : session.before) {
    sessions.add(session);
  }
  return sessions;
}

type Selection = 'all' | 'errors';
const isIn = (selection: Selection, { status }: Entry) => selection === 'all' || status === 500;

/** Returns the complete reads of a selection that may be exposed because no newer read has certainly replaced them. */
export function walksOf(world: NumberWorld, selection: Selection): Round[] {
  const { record } = world;
  const sessions = sessionsOf(world, 'dlq');
  // If two rounds overlap, the first to end also exposes complete reads of the other.
  const reading = record.inFlight.filter(({ parts }) => parts.get(selection)?.hasEnd);
  const own = [...record.ended, ...reading].filter(
    ({ process: of, collector }) => sessions.has(of) && collector === 'dlq',
  );
  // If a filter fails, the round's other data remains available, and the next successful round exposes it.
  const isTakenUp = ({ round, parts, endedAt = Number.POSITIVE_INFINITY }: Round) =>
    round === 'new' &&
    parts.get(selection)?.hasEnd &&
    own.some(({ isObserved, begunAt }) => isObserved && begunAt >= endedAt);
  const complete = own.filter(
    round =>
      // If a commit fails, the data remains available, and the next round exposes it.
      (round.isObserved || round.reason === 'store' || round.endedAt === undefined || isTakenUp(round)) &&
      round.parts.get(selection)?.isWhole &&
      isReadable(round.parts.get(selection) as never) &&
      // A walk is discarded if it did not read the queue, but not if a filter failed.
      (round.round === 'new' || isReadable(round.parts.get('all') as never)),
  );
  // A failed walk also discards new entries that another round found concurrently, so overlapping reads do not necessarily
  // replace others.
  const overlaps = (one: Round) =>
    own.some(
      other =>
        other !== one &&
        other.begunAt < (one.endedAt ?? Number.POSITIVE_INFINITY) &&
        (other.endedAt ?? Number.POSITIVE_INFINITY) > one.begunAt,
    );
  const sure = complete.filter(one => one.success && !overlaps(one));
  return complete.filter(
    one => !sure.some(later => later.begunAt >= (one.endedAt ?? Number.POSITIVE_INFINITY) && later !== one),
  );
}

/** Returns whether an entry is listed and meets a condition throughout a period (`always`), and at some time in it (`ever`). */
function through(
  entry: Entry,
  from: number,
  to: number,
  holds: (at: number) => boolean,
): { always: boolean; ever: boolean } {
  const moments = [
    from,
    to,
    entry.enteredAt,
    entry.leftAt ?? from,
    ...entry.runs.flatMap(run => [run.from, run.to ?? from, run.cancelledAt ?? from]),
  ].filter(at => at >= from && at <= to);
  const each = moments.map(at => isListed(entry, at) && holds(at));
  // Also check the instant before each change.
  const before = moments.filter(at => at > from).map(at => isListed(entry, at - 1) && holds(at - 1));
  const all = [...each, ...before];
  return { always: all.every(Boolean), ever: all.some(Boolean) };
}

const hiddenIn = (walk: Round, selection: Selection) => walk.parts.get(selection)?.hidden.size ?? 0;

interface Bounds {
  readonly least: number;
  readonly most: number;
}

function countOf(
  world: NumberWorld,
  selection: Selection,
  walk: Round,
  holds: (entry: Entry, at: number) => boolean,
): Bounds {
  let [least, most] = [0, 0];
  const hidden = walk.parts.get(selection)?.hidden;
  for (const entry of world.truth.entries) {
    if (!isIn(selection, entry)) continue;
    const is = (at: number) => holds(entry, at);
    if (through(entry, walk.begunAt, world.now, is).ever) most += 1;
    if (!hidden?.has(entry) && through(entry, walk.begunAt, walk.endedAt ?? world.now, is).always) least += 1;
  }
  return { least, most };
}

const inside = (value: number, { least, most }: Bounds) => value >= least && value <= most;
const text = ({ least, most }: Bounds) => `${least}..${most}`;

export interface Checked {
  readonly wrong: string[];
  /** Number of compared values. */
  readonly count: number;
}

function checkCount(
  world: NumberWorld,
  selection: Selection,
  series: string,
  value: number | undefined,
  holds: (entry: Entry, at: number) => boolean,
  into: { wrong: string[]; count: number },
): void {
  if (value === undefined) return;
  into.count += 1;
  const walks = walksOf(world, selection);
  const all = walks.map(walk => countOf(world, selection, walk, holds));
  // Each unreadable row is counted as an entry with unknown properties.
  const unread = series.includes('"__none__"') ? Math.max(0, ...walks.map(walk => hiddenIn(walk, selection))) : 0;
  if (all.some(bounds => inside(Math.max(0, value - unread), bounds))) return;
  into.wrong.push(`${series} is ${value} instead of ${all.map(text).join(' or ') || 'never read'}`);
}

const STATES: Readonly<Record<string, string>> = {
  in_progress: 'INPROGRESS',
  success: 'SUCCESS',
  fail: 'FAIL',
  canceled: 'CANCELED',
};

/** Returns the series of the complete queue or of a filter as written on /metrics. */
function seriesOf(selection: Selection, name: string, more = ''): string {
  const labels = [...(selection === 'all' ? [] : [`filter="${selection}"`]), ...(more === '' ? [] : [more])].join(',');
  return `delivery_dlq_${selection === 'all' ? '' : 'filter_'}${name}${labels === '' ? '' : `{${labels}}`}`;
}

function checkQueue(world: NumberWorld, { samples }: Scrape, into: { wrong: string[]; count: number }): void {
  const { truth, shape } = world;
  const get = (series: string) => samples.get(series);
  for (const selection of ['all', 'errors'] as const) {
    const series = seriesOf(selection, 'messages');
    checkCount(world, selection, series, get(series), () => true, into);
    const walks = walksOf(world, selection);
    const oldest = seriesOf(selection, 'oldest_entered_timestamp_seconds');
    const value = get(oldest);
    if (value === undefined) continue;
    into.count += 1;
    const secondsOf = ({ enteredAt }: Entry) => (START + enteredAt) / 1000;
    const known = truth.entries.some(entry => isIn(selection, entry) && Math.abs(secondsOf(entry) - value) < 0.0005);
    const isBeyond = (walk: Round) =>
      truth.entries.some(entry => {
        if (!isIn(selection, entry) || walk.parts.get(selection)?.hidden.has(entry)) return false;
        if (!through(entry, walk.begunAt, walk.endedAt ?? world.now, () => true).always) return false;
        return secondsOf(entry) < value - 0.001;
      });
    if (!known || walks.every(isBeyond)) into.wrong.push(`${oldest} is ${value}`);
  }
  for (const [series, value] of samples) {
    const [, dimension, shown] = /^delivery_dlq_messages_by_(\w+)\{\w+="([^"]*)"\}/.exec(series) ?? [];
    if (dimension === 'url_host') checkCount(world, 'all', series, value, ({ host }) => host === shown, into);
    if (dimension === 'response_status')
      checkCount(world, 'all', series, value, ({ status }) => String(status) === shown, into);
    const [, state = ''] = /^delivery_dlq_failure_callbacks\{state="(\w+)"\}/.exec(series) ?? [];
    if (STATES[state] && shape.source !== 'apart' && !shape.hidesStates)
      checkCount(world, 'all', series, value, (entry, at) => stateAt(entry, at) === STATES[state], into);
  }
}

function checkFlow(world: NumberWorld, { samples }: Scrape, into: { wrong: string[]; count: number }): void {
  const { truth, record } = world;
  const sessions = sessionsOf(world, 'flow_control');
  const rounds = record.ended.filter(
    ({ process: of, collector, isObserved }) => sessions.has(of) && collector === 'flow_control' && isObserved,
  );
  const list = rounds.findLast(({ round, parts }) => round === 'list' && [...parts.values()].every(isReadable));
  const listAt = list?.answers.at(-1)?.trueAt;
  // A list with unreadable rows removes no keys: keys that it does not contain keep their previous values.
  const whole = rounds.findLastIndex(({ round, parts }) => round === 'list' && [...parts.values()].every(isClean));
  const before = rounds
    .slice(Math.max(0, whole), list ? rounds.indexOf(list) : 0)
    .flatMap(({ answers }) => answers.filter(({ quality }) => quality !== 'failed' && quality !== 'broken'))
    .filter(({ key }) => key === undefined)
    .map(({ trueAt }) => trueAt);
  for (const [series, value] of samples) {
    const [, key] = /^delivery_flow_control_waitlist_size\{flow_control_key="([^"]*)"\}/.exec(series) ?? [];
    if (key === undefined) continue;
    into.count += 1;
    const watched = rounds
      .filter(({ round, endedAt }) => round === 'watch' && (endedAt ?? 0) >= (list?.begunAt ?? 0))
      .flatMap(({ answers }) =>
        answers.filter(answer => answer.key === key && answer.quality === 'whole').map(({ trueAt }) => trueAt),
      );
    const sizes = truth.keys.get(key) ?? [];
    // A watched key that the service does not list (-1) is exposed as 0.
    const moments = [...watched, ...before, ...(listAt === undefined ? [] : [listAt])];
    if (!moments.some(at => Math.max(0, sizeAt(sizes, at)) === value)) {
      into.wrong.push(
        `${series} is ${value} instead of ${moments.map(at => sizeAt(sizes, at)).join(' or ') || 'never read'}`,
      );
    }
  }
  const keys = samples.get('delivery_flow_control_keys');
  if (keys === undefined || listAt === undefined) return;
  into.count += 1;
  const listed = [...truth.keys.values()].filter(sizes => sizeAt(sizes, listAt) >= 0).length;
  const isPartial = [...(list?.parts.values() ?? [])].some(part => part.isPartial);
  if (keys !== listed && !isPartial) into.wrong.push(`delivery_flow_control_keys is ${keys} instead of ${listed}`);
}

const WINDOW = 10 * MINUTE;
const OVERLAP = 60 * SECOND;

function checkEvents(world: NumberWorld, { samples }: Scrape, into: { wrong: string[]; count: number }): void {
  const { truth, record, process } = world;
  const sessions = sessionsOf(world, 'events');
  const tail = record.ended.findLast(
    ({ process: of, collector, parts, ...tail }) =>
      sessions.has(of) &&
      collector === 'events' &&
      tail.round === 'tail' &&
      tail.isObserved &&
      [...parts.values()].every(isReadable),
  );
  for (const [series, value] of samples) {
    const [, state] = /^delivery_events_recent\{state="(\w+)"\}/.exec(series) ?? [];
    if (state === undefined) continue;
    into.count += 1;
    if (!tail) {
      into.wrong.push(`${series} is ${value}, and no log was read`);
      continue;
    }
    // If the newest event is later than the agent's clock, the window ends at that event. It then contains fewer events.
    const until = tail.wallAt - START;
    const of = truth.events.filter(
      event => event.state.toLowerCase() === state && happened(event) && event.listedAt <= world.now,
    );
    const most = of.filter(({ time }) => time >= until - WINDOW - 1).length;
    if (value > most) into.wrong.push(`${series} is ${value} but at most ${most} had happened`);
    const isUsual = process.steps.length === 0 && Math.abs(until - tail.begunAt) < SECOND;
    const isPartial = [...tail.parts.values()].some(part => part.isPartial);
    const least = of.filter(
      ({ time, listedAt }) =>
        time >= until - WINDOW && listedAt <= tail.begunAt && time <= until && listedAt - time <= OVERLAP / 2,
    ).length;
    if (
      isUsual &&
      !isPartial &&
      !record.ended.some(
        each =>
          each.process === process &&
          each.collector === 'events' &&
          [...each.parts.values()].some(part => part.isPartial),
      ) &&
      value < least
    ) {
      into.wrong.push(`${series} is ${value}, and at least ${least} had happened`);
    }
  }
}

/**
 * Adds to `into` the counters that exceed the true number of events. `hiddenOnce`: number of rows that have been unreadable in
 * lists so far.
 */
function checkCounts(
  world: NumberWorld,
  { rising }: Scrape,
  hiddenOnce: number,
  into: { wrong: string[]; count: number },
): void {
  const { truth, now } = world;
  for (const selection of ['all', 'errors'] as const) {
    const of = truth.entries.filter(entry => isIn(selection, entry));
    const gone = of.filter(({ leftAt }) => leftAt !== undefined && leftAt <= now).length;
    let left = 0;
    for (const reason of ['expired', 'removed', 'unknown'])
      left += rising.get(seriesOf(selection, 'left_total', `reason="${reason}"`)) ?? 0;
    into.count += 2;
    if (left > gone + hiddenOnce) into.wrong.push(`${left} of ${selection} are counted as left, and ${gone} have`);
    const entered = rising.get(seriesOf(selection, 'entered_total')) ?? 0;
    if (entered > of.length + hiddenOnce)
      into.wrong.push(`${entered} of ${selection} are counted as entered, and ${of.length} have`);
  }
  const counts = new Map<string, number>();
  for (const event of truth.events) {
    if (event.listedAt > now || !happened(event)) continue;
    counts.set(event.state.toLowerCase(), (counts.get(event.state.toLowerCase()) ?? 0) + 1);
  }
  for (const [series, value] of rising) {
    const [, state = ''] = /^delivery_events_total\{state="(\w+)"\}/.exec(series) ?? [];
    if (state === '') continue;
    into.count += 1;
    if (value > (counts.get(state) ?? 0))
      into.wrong.push(`${series} is ${value}, and ${counts.get(state) ?? 0} had happened`);
  }
}

/** Returns exposed values that were never correct, and the number of compared values. */
export function checkNumbers(world: NumberWorld, scrape: Scrape, hiddenOnce: number): Checked {
  const into = { wrong: [] as string[], count: 0 };
  checkQueue(world, scrape, into);
  checkFlow(world, scrape, into);
  checkEvents(world, scrape, into);
  checkCounts(world, scrape, hiddenOnce, into);
  return into;
}
