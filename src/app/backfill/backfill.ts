import { type EventsFacts, factsOf } from '../../collectors/events/events.ts';
import { createReplay, type ReplayFound, type ReplayRange } from '../../collectors/events/replay.ts';
import { restoreMemory } from '../../collectors/events/rows.ts';
import { schedulesOf } from '../../collectors/index.ts';
import { createRoutes } from '../../collectors/routes.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { withClosing } from '../../kit/closing.ts';
import { createMemoryStore } from '../../store/memory.ts';
import { attachStore } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import type { Account } from '../account.ts';
import type { AccountSettings } from '../account-client.ts';
import { type Gap, readGaps } from '../gaps.ts';
import { createParts, type PartsDeps } from '../parts.ts';
import { exposes } from '../shown-sources.ts';
import { createRecording } from './recording.ts';
import { createSeriesFile, type SeriesFile } from './series-file.ts';

const MINUTE = 60_000;
/** Events on a page of the log. */
const PAGE = 1000;
/** By how much the clocks of agent and Prometheus may differ: a point after what was scraped next would look like a reset. */
const CLOCKS = 15_000;
/** Where the account's spending of the day is stored. */
const SPENT = 'budget/spent';

/** What is to be written. Times: milliseconds since the Unix epoch. */
export interface BackfillOrder {
  /** Undefined: the gaps that the store knows of. */
  readonly range: { readonly from: number; readonly to: number | undefined } | undefined;
  /** Labels of every series beside those of /metrics. */
  readonly labels: (account: string) => Readonly<Record<string, string>>;
}

/** How far the reading is. */
export interface BackfillProgress {
  readonly account: string;
  readonly from: number;
  readonly readTo: number;
  readonly to: number;
  readonly events: number;
  readonly requests: number;
}

/** What became of one account's gap, or range. Times: milliseconds since the Unix epoch. */
export interface Backfilled {
  readonly account: string;
  /** The first and last point in time that was written; undefined where nothing was. */
  readonly written: { readonly from: number; readonly to: number; readonly points: number } | undefined;
  readonly events: number;
  readonly requests: number;
  /** As few as there can be for so many events. */
  readonly leastRequests: number;
  /** What else is to be known. */
  readonly notes: readonly string[];
  /** Why nothing was written. */
  readonly refusal: string | undefined;
}

/** What can't be told, and therefore is not written. */
class Refusal extends Error {}

/** A part of an account's time, from one state of what was counted to another. */
interface Part {
  readonly range: ReplayRange;
  /** Nothing was shown from here on. */
  readonly begin: number;
  readonly gap: Gap | undefined;
  /** Whether the log surely holds all of it. */
  readonly isKept: boolean;
  readonly notes: readonly string[];
}

const iso = (time: number) => new Date(time).toISOString();
const nextMark = (time: number) => Math.ceil(time / MINUTE) * MINUTE;

/** How an account's log is folded. */
function reading({ name, collect, objectives }: AccountSettings, { config }: LoadedConfig) {
  const services = {
    onTimeWithin: objectives.onTimeWithin,
    routes: createRoutes(collect.routes),
    schedules: schedulesOf(config.schedules, name),
  };
  const memoryOf = (rows: ReadonlyMap<string, string>) => restoreMemory(rows, collect.events, services);
  return { options: collect.events, services, memoryOf, isExposed: exposes(collect) };
}

type Reading = ReturnType<typeof reading>;

function gapPart(gap: Gap, { memoryOf }: Reading): Part {
  const { from, tooLarge, rows, end } = gap;
  const since = `the gap since ${iso(from)}`;
  if (tooLarge) throw new Refusal(`${since}: what was known when it began was too large to keep`);
  if (!end)
    throw new Refusal(`${since}: the agent has not caught up yet; try again when delivery_event_log_catching_up is 0`);
  const to = memoryOf(end.rows).checkpoint?.readTo ?? end.shownAt;
  const first = nextMark(from + 1);
  if (first > to) throw new Refusal(`${since}: no minute began before ${iso(to)}, when counters were shown again`);
  return { range: { from: first, to, endsAtTo: true, rows }, begin: from, gap, isKept: true, notes: [] };
}

async function rangePart(
  { from, to }: NonNullable<BackfillOrder['range']>,
  { name, retention, collect }: AccountSettings,
  { memoryOf }: Reading,
  store: Store | undefined,
  now: number,
): Promise<Part> {
  const rows = await store?.scan(name, 'events/checkpoint');
  const checkpoint = rows && memoryOf(new Map([...rows].map(([key, value]) => [key.slice(7), value]))).checkpoint;
  const settled = now - collect.events.overlap;
  const until = Math.min(to ?? checkpoint?.floor ?? settled, settled);
  if (checkpoint && until > checkpoint.floor) {
    throw new Refusal(
      `the agent counts events since ${iso(checkpoint.floor)}: give that or less as --to; for times without an agent since then there is --gap`,
    );
  }
  const kept = retention.events === null ? Number.NEGATIVE_INFINITY : now - retention.events;
  const notes = kept > from ? [`begins at ${iso(kept)}: the log is kept for no longer (retention.events)`] : [];
  const first = nextMark(Math.max(from, kept));
  if (first > until) throw new Refusal(`no minute begins between ${iso(Math.max(from, kept))} and ${iso(until)}`);
  return {
    range: { from: first, to: until, endsAtTo: true },
    begin: first,
    gap: undefined,
    isKept: retention.events !== null,
    notes,
  };
}

const sum = (numbers: Iterable<number>) => [...numbers].reduce((a, b) => a + b, 0);

/** Events, and messages that ended, of the whole account: by how much `more` has more than `less`, whatever the label. */
function excess(more: EventsFacts, less: EventsFacts): number {
  const sums = ({ destinations }: EventsFacts) => {
    const all = new Map<string, number>();
    for (const { events, finished } of destinations.values()) {
      for (const [name, count] of [
        ...Object.entries(events),
        ...Object.entries(finished).map(([outcome, n]) => [`ended ${outcome}`, n] as const),
      ]) {
        all.set(name, (all.get(name) ?? 0) + count);
      }
    }
    return all;
  };
  const other = sums(less);
  return sum([...sums(more)].map(([name, count]) => Math.max(0, count - (other.get(name) ?? 0))));
}

/**
 * Throws Refusal where events are gone that were counted right before the gap. What is left of the log could fill a part of the gap
 * with events, but not with what became of messages: it does not tell which of them had begun before.
 */
function checkBegin({ missing, begin, oldest = begin }: ReplayFound): void {
  if (missing === 0) return;
  const listed = oldest === undefined ? 'nothing of it is listed' : `nothing is listed before ${iso(oldest)}`;
  throw new Refusal(
    `the log no longer holds the beginning of the gap: ${missing} events that were counted right before it are gone, ${listed}; a part of a gap can’t be told exactly: this one stays; after another, run backfill sooner`,
  );
}

/** Throws Refusal where the log no longer says all that the agent has counted. */
function check(last: EventsFacts, before: EventsFacts, after: EventsFacts): void {
  if (after.log.gaps > before.log.gaps) throw new Refusal('the agent found that the log had lost events of the gap');
  // What the sweep found meanwhile is older than what is read here.
  const less = excess(after, last) - (after.log.late - last.log.late);
  if (less > 0) {
    throw new Refusal(
      `the log lists ${less} events and ends of messages less than the agent counted: it no longer holds all of the gap`,
    );
  }
}

/** Reads one part and puts it into the file. Throws Refusal. */
async function fill(
  part: Part,
  account: Account,
  { options, services, memoryOf, isExposed }: Reading,
  file: SeriesFile,
  { signal, onProgress }: BackfillDeps,
): Promise<Backfilled> {
  const { range, gap, begin } = part;
  const { name } = account;
  const requests = account.spent().requests;
  const memory = gap && memoryOf(gap.rows);
  const before = memory && factsOf(memory, options);
  const after = gap?.end && factsOf(memoryOf(gap.end.rows), options);
  const isKnown = (destination: string) => memory?.destinations.stored(destination) !== undefined;
  const recording = createRecording(file, { account: name, isExposed, before, isKnown, after });
  const replay = createReplay(account.at('background'), options, services, range, signal);
  const { found } = replay;
  const notes = [...part.notes];
  if (begin < range.from) file.begin(begin);
  let last: EventsFacts | undefined;
  for await (const { at, facts } of replay.steps) {
    onProgress({ account: name, ...range, ...found, requests: account.spent().requests - requests });
    last = facts;
    // Where nothing says how long the log is kept, there is nothing to tell before its first event.
    const isTold = part.isKept || (found.oldest !== undefined && at > found.oldest - MINUTE);
    if (isTold && (!gap || (at % MINUTE === 0 && at <= range.to - CLOCKS))) recording.add(at, facts);
  }
  checkBegin(found);
  if (last && before && after) check(last, before, after);
  if (found.rejected > 0) notes.push(`${found.rejected} rows of the log could not be read`);
  const followedTo = gap?.end && memoryOf(gap.end.rows).checkpoint?.watermark;
  const early = recording.endedBefore(Math.min(followedTo ?? 0, range.to - CLOCKS));
  if (early.length > 0) {
    notes.push(`ends early, as the agent counted otherwise: ${early.map(family => family.name).join(', ')}`);
  }
  const { first, last: end, points } = recording;
  return {
    account: name,
    written: first === undefined || end === undefined ? undefined : { from: first, to: end, points },
    events: found.events,
    requests: account.spent().requests - requests,
    leastRequests: Math.ceil(found.events / PAGE),
    notes,
    refusal: undefined,
  };
}

export interface BackfillDeps extends Pick<PartsDeps, 'env' | 'clock' | 'random'> {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BackfillProgress) => void;
  /** Takes the output, piece by piece; called only when all is read. */
  readonly write: (pieces: Iterable<string>) => Promise<void>;
}

/** What the agent's store says; undefined where it is in the agent's memory, or not there yet. */
async function storeOf({ config }: LoadedConfig, isNeeded: boolean, env: PartsDeps['env']): Promise<Store | undefined> {
  try {
    return await attachStore(config.store, { env });
  } catch (error) {
    const reason = error instanceof Error && 'reason' in error ? error.reason : undefined;
    if (isNeeded || (reason !== 'missing' && reason !== 'unshared')) throw error;
    return undefined;
  }
}

/** A store of its own, in which the day's spending goes on from the agent's. */
async function ownStore(accounts: readonly AccountSettings[], store: Store | undefined): Promise<Store> {
  const own = createMemoryStore();
  for (const { name } of accounts) {
    const spent = (await store?.scan(name, SPENT))?.get(SPENT);
    if (spent !== undefined) await own.commit(name, [{ key: SPENT, value: spent }]);
  }
  return own;
}

/**
 * Reads what the event log still holds of a range, or of the gaps in which no agent ran, and writes the counters and histograms
 * that an agent would have shown, minute by minute. What can't be told of an account is not written, and said. Rejects with
 * StoreError, and with what the service's refusal is called.
 */
export function backfill(loaded: LoadedConfig, order: BackfillOrder, deps: BackfillDeps): Promise<Backfilled[]> {
  return withClosing(async closing => {
    const { config } = loaded;
    const store = await storeOf(loaded, order.range === undefined, deps.env);
    if (store) closing.add('store', () => store.close());
    const own = await ownStore(config.accounts, store);
    const alone = { ...config, store: { ...config.store, kind: 'memory' as const } };
    const parts = { ...deps, openStore: async () => own };
    const { accounts } = await createParts({ ...loaded, config: alone }, parts, closing);
    const file = createSeriesFile(order.labels);
    closing.add('temporary file', file.close);
    const done: Backfilled[] = [];
    for (const settings of config.accounts) {
      const account = accounts.find(({ name }) => name === settings.name);
      if (!account || !settings.collect.events.enabled) continue;
      const how = reading(settings, loaded);
      const now = deps.clock.now();
      const gaps = order.range ? [undefined] : store ? await readGaps(store, settings.name, now) : [];
      for (const gap of gaps) {
        const { requests } = account.spent();
        try {
          const range = order.range ?? { from: 0, to: 0 };
          const part = gap ? gapPart(gap, how) : await rangePart(range, settings, how, store, now);
          done.push(await fill(part, account, how, file, deps));
          file.endPart(true);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          file.endPart(false);
          const cost = { events: 0, requests: account.spent().requests - requests, leastRequests: 0 };
          done.push({ account: settings.name, written: undefined, ...cost, notes: [], refusal: error.message });
        }
      }
    }
    if (done.some(({ written }) => written)) await deps.write(file.text());
    return done;
  });
}
