import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { CatchUp } from '../scheduler/runner.ts';
import type { Store } from '../store/store.ts';
import type { LastKnown } from './account-rows.ts';

/** A shorter time without an agent is no gap: rates and increases look back further, milliseconds. */
const SHORTEST = 120_000;
/** For how long after it was last saved an agent may have shown its counters: it saves every 15 seconds. */
const SHOWN_AFTER = 30_000;
/** Gaps that are kept, for how long (milliseconds), and of how many characters of a memory. */
const MOST_GAPS = 5;
const KEPT = 30 * 86_400_000;
const MOST_CHARACTERS = 32 * 1024 * 1024;
/** Characters of a row that holds several. */
const PART = 256 * 1024;

const ROOT = 'event-gap/';
const OF_EVENTS = 'events/';
/** Rows of the event log that tell nothing of what comes: what the sweep compares with, and traces. */
const LEFT_OUT = /^events\/(minute|trace|outbox)\//;
/** Rows of what is shown: the counters, and until when messages were followed. */
const SHOWN = /^events\/(checkpoint$|log$|destination\/|schedule\/)/;

/** Times: milliseconds since the Unix epoch. */
interface Begin {
  /** Nothing was shown from here on. */
  readonly from: number;
  /** Where there was more to keep than is kept. */
  readonly tooLarge?: boolean;
}

interface End {
  /** When counters were shown again, and not before. */
  readonly shownAt: number;
}

/** A time in which no agent ran. Rows are those of the events collector, by its own keys. */
export interface Gap extends Begin {
  /** What was known when it began. */
  readonly rows: ReadonlyMap<string, string>;
  /** What was shown first after it; undefined while it is not over. */
  readonly end: (End & { readonly rows: ReadonlyMap<string, string> }) | undefined;
}

type Rows = ReadonlyMap<string, string>;

/** Several rows in one, so that a hundred thousand take a few hundred. */
function* inParts(prefix: string, rows: Iterable<readonly [string, string]>): Generator<Change> {
  let [part, size, number]: [(readonly [string, string])[], number, number] = [[], 0, 0];
  for (const row of rows) {
    part.push(row);
    size += row[0].length + row[1].length;
    if (size < PART) continue;
    yield { key: `${prefix}${number}`, value: JSON.stringify(part) };
    [part, size, number] = [[], 0, number + 1];
  }
  yield { key: `${prefix}${number}`, value: JSON.stringify(part) };
}

function fromParts(prefix: string, stored: Rows): Rows {
  const rows = new Map<string, string>();
  for (const [key, value] of stored) {
    if (!key.startsWith(prefix)) continue;
    for (const [own, text] of JSON.parse(value) as [string, string][]) rows.set(own.slice(OF_EVENTS.length), text);
  }
  return rows;
}

/** Keys of what is stored of gaps, by when they began. */
async function storedKeys(store: Store, account: string): Promise<Map<number, string[]>> {
  const keys = [...(await store.sizes(account, ROOT)).keys()];
  return Map.groupBy(keys, key => Number(key.split('/')[1]));
}

/** The gaps of an account whose beginning is known, the oldest first. Rejects with StoreError. */
export async function readGaps(store: Store, account: string, now: number): Promise<Gap[]> {
  const gaps: Gap[] = [];
  for (const from of [...(await storedKeys(store, account)).keys()].sort((a, b) => a - b)) {
    const prefix = `${ROOT}${from}/`;
    const stored = await store.scan(account, prefix);
    const [begin, end] = [stored.get(`${prefix}begin`), stored.get(`${prefix}end`)];
    if (begin === undefined || from < now - KEPT) continue;
    gaps.push({
      ...(JSON.parse(begin) as Begin),
      rows: fromParts(`${prefix}rows/`, stored),
      end: end === undefined ? undefined : { ...(JSON.parse(end) as End), rows: fromParts(`${prefix}shown/`, stored) },
    });
  }
  return gaps;
}

interface GapDeps {
  readonly store: Store;
  readonly before: LastKnown;
  /** What the account showed until now, in this process. */
  readonly shown: unknown;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

/** When an agent last saved what it knew of the account. */
function lastSaved({ shownAt, freshness = {} }: LastKnown): number | undefined {
  if (shownAt !== undefined) return shownAt;
  const times = Object.values(freshness).flatMap(rounds => Object.values(rounds).map(({ completeAt }) => completeAt));
  return times.length === 0 ? undefined : Math.max(...times);
}

/** Keeps what was known when a gap began. What says that it is there is committed last. */
async function keepBegin(store: Store, account: string, from: number): Promise<void> {
  const sizes = [...(await store.sizes(account, OF_EVENTS))].filter(([key]) => !LEFT_OUT.test(key));
  const tooLarge = sizes.reduce((sum, [key, size]) => sum + key.length + size, 0) > MOST_CHARACTERS;
  const rows = tooLarge ? [] : [...(await store.scan(account, OF_EVENTS))].filter(([key]) => !LEFT_OUT.test(key));
  for (const part of inParts(`${ROOT}${from}/rows/`, rows)) await store.commit(account, [part]);
  const begin: Begin = { from, ...(tooLarge && { tooLarge }) };
  await store.commit(account, [{ key: `${ROOT}${from}/begin`, value: JSON.stringify(begin) }]);
}

async function keepEnd(store: Store, account: string, from: number, shownAt: number): Promise<void> {
  const rows = [...(await store.scan(account, OF_EVENTS))].filter(([key]) => SHOWN.test(key));
  for (const part of inParts(`${ROOT}${from}/shown/`, rows)) await store.commit(account, [part]);
  const end: End = { shownAt };
  await store.commit(account, [{ key: `${ROOT}${from}/end`, value: JSON.stringify(end) }]);
}

/**
 * Notices that no agent ran for the account until now, and keeps what was known then, so that what happened meanwhile can be
 * counted again minute by minute. Undefined where there is no gap, or it can't be kept; counters are then shown at once.
 */
export async function openGap(
  account: string,
  { store, before, shown, clock, log }: GapDeps,
): Promise<CatchUp | undefined> {
  const catchUp = (from: number): CatchUp => ({
    round: 'tail',
    end: () => keepEnd(store, account, from, clock.now()),
  });
  try {
    const stored = await storedKeys(store, account);
    const has = (from: number, name: string) => stored.get(from)?.includes(`${ROOT}${from}/${name}`) ?? false;
    const last = Math.max(...stored.keys());
    // An agent that was stopped before it had caught up has shown nothing.
    if (has(last, 'begin') && !has(last, 'end')) return catchUp(last);
    const [now, saved] = [clock.now(), lastSaved(before)];
    if (shown !== undefined || saved === undefined || now - saved <= SHORTEST) return undefined;
    if ((await store.sizes(account, `${OF_EVENTS}checkpoint`)).size === 0) return undefined;
    const from = saved + SHOWN_AFTER;
    const kept = [...stored.keys()].filter(each => each > now - KEPT).sort((a, b) => b - a);
    const gone = [...stored.keys()].filter(each => !kept.slice(0, MOST_GAPS - 1).includes(each));
    const keys = gone.flatMap(each => stored.get(each) ?? []);
    if (keys.length > 0) await store.commit(account, [...keys.map(key => ({ key, value: null }))]);
    await keepBegin(store, account, from);
    const seconds = Math.round((now - saved) / 1000);
    log.info({ account, seconds }, 'no agent ran for a while: event counters are shown when they have caught up');
    return catchUp(from);
  } catch (error) {
    log.warn({ account, error: String(error) }, 'a gap in the event log could not be noted: backfill can’t fill it');
    return undefined;
  }
}
