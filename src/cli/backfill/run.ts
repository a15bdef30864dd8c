import type { Account } from '../../agent/account.ts';
import type { AccountSettings } from '../../agent/account-client.ts';
import type { PartsDeps } from '../../agent/parts.ts';
import { type EventsFacts, events } from '../../collectors/events/events.ts';
import { createReplay } from '../../collectors/events/replay.ts';
import { restoreMemory } from '../../collectors/events/rows.ts';
import { schedulesOf } from '../../collectors/index.ts';
import { createRoutes } from '../../collectors/routes.ts';
import type { LoadedConfig } from '../../config/load.ts';
import { withClosing } from '../../kit/closing.ts';
import type { Family, Sample } from '../../metrics/family.ts';
import { createGlobs } from '../../metrics/shown-sources.ts';
import type { Store } from '../../store/store.ts';
import { UpstreamError } from '../../upstream/errors.ts';
import { openForReading } from '../read-alone.ts';
import { createSeriesFile, type SeriesFile } from './series-file.ts';

const MINUTE = 60_000;
/** Number of events per page of the log. */
const PAGE = 1000;
const CHECKPOINT = 'events/checkpoint';

/** Families about the agent's own reads, which cannot be reconstructed from the log. */
const OF_READING: ReadonlySet<string> = new Set(['gaps', 'late', 'duplicates']);
/** Families that can be reconstructed from the log, by key. */
const WRITTEN: ReadonlyMap<string, Family> = new Map(
  Object.entries(events.families).filter(([key, { type }]) => type !== 'gauge' && !OF_READING.has(key)),
);

export interface BackfillOrder {
  readonly from: number;
  /** End of the range. Default: the first start of the agent, or now if it never ran. */
  readonly to: number | undefined;
  /** Labels to add to every series of an account. */
  readonly labels: (account: string) => Readonly<Record<string, string>>;
}

export interface BackfillProgress {
  readonly account: string;
  readonly from: number;
  readonly readTo: number;
  readonly to: number;
  readonly events: number;
  readonly requests: number;
}

/** Result for one account. Times in ms since the Unix epoch. */
export interface Backfilled {
  readonly account: string;
  /** Range and number of the written points; undefined if none were written. */
  readonly written: { readonly from: number; readonly to: number; readonly points: number } | undefined;
  readonly events: number;
  readonly requests: number;
  /** Minimum number of requests needed to read these events. */
  readonly leastRequests: number;
  readonly notes: readonly string[];
  readonly refusal: string | undefined;
}

class Refusal extends Error {}

const iso = (time: number) => new Date(time).toISOString();
const nextMark = (time: number) => Math.ceil(time / MINUTE) * MINUTE;

function reading({ name, collect, objectives }: AccountSettings, { config }: LoadedConfig) {
  const services = {
    onTimeWithin: objectives.onTimeWithin,
    routes: createRoutes(collect.routes),
    schedules: schedulesOf(config.schedules, name),
  };
  return { options: collect.events, services, isExcluded: createGlobs(collect.families.exclude) };
}

type Reading = ReturnType<typeof reading>;

/** Returns when the agent started to count events (ms since the Unix epoch); undefined if it never ran. */
async function countedSince(
  { name }: AccountSettings,
  { options, services }: Reading,
  store: Store | undefined,
): Promise<number | undefined> {
  const stored = (await store?.scan(name, CHECKPOINT))?.get(CHECKPOINT);
  if (stored === undefined) return undefined;
  return restoreMemory(new Map([['checkpoint', stored]]), options, services).checkpoint?.floor;
}

/** Returns the part of the range that can be written for an account (ms since the Unix epoch). Throws Refusal. */
function partOf(
  { from, to }: BackfillOrder,
  { retention, collect }: AccountSettings,
  floor: number | undefined,
  now: number,
) {
  const settled = now - collect.events.overlap;
  const until = Math.min(to ?? floor ?? settled, settled);
  if (floor !== undefined && until > floor) {
    throw new Refusal(`the agent has counted events since ${iso(floor)}: use this time or an earlier one as --to`);
  }
  const kept = retention.events === null ? Number.NEGATIVE_INFINITY : now - retention.events;
  const notes = kept > from ? [`starts at ${iso(kept)}: older events have expired (retention.events)`] : [];
  const first = nextMark(Math.max(from, kept));
  if (first > until) throw new Refusal(`no minute begins between ${iso(Math.max(from, kept))} and ${iso(until)}`);
  // `isKept`: whether the log is certain to contain the complete range.
  return { from: first, to: until, isKept: retention.events !== null, notes };
}

/**
 * Returns a function that writes one point of every series of an account. `at` is the time of the point (ms since the Unix
 * epoch).
 */
function pointWriter(file: SeriesFile, account: string, isExcluded: (family: string) => boolean) {
  const families = [...WRITTEN].filter(([, { name }]) => !isExcluded(name));
  const started = new Set<number>();
  return (at: number, facts: EventsFacts) => {
    file.begin(at);
    const samples: Readonly<Record<string, readonly Sample[] | undefined>> = events.samples(facts);
    for (const [key, family] of families) {
      for (const sample of samples[key] ?? []) {
        const number = file.of(account, family, sample);
        if (!started.has(number)) file.startAtZero(number);
        started.add(number);
        file.set(number, sample.value);
      }
    }
  };
}

async function fill(
  { from, to, isKept, notes }: ReturnType<typeof partOf>,
  account: Account,
  { options, services, isExcluded }: Reading,
  file: SeriesFile,
  { signal, onProgress }: BackfillDeps,
): Promise<Backfilled> {
  const { name } = account;
  const requests = account.spent().requests;
  const write = pointWriter(file, name, isExcluded);
  let written: Backfilled['written'];
  const { steps, found } = createReplay(account.at('background'), options, services, { from, to }, signal);
  for await (const { at, facts } of steps) {
    onProgress({ account: name, from, to, ...found, requests: account.spent().requests - requests });
    // If the retention is unknown, an empty log proves nothing about times before its first event.
    if (!isKept && (found.oldest === undefined || at <= found.oldest - MINUTE)) continue;
    write(at, facts);
    written = { from: written?.from ?? at, to: at, points: (written?.points ?? 0) + 1 };
  }
  const unread = found.rejected > 0 ? [`${found.rejected} rows of the log could not be read`] : [];
  return {
    account: name,
    written,
    events: found.events,
    requests: account.spent().requests - requests,
    leastRequests: Math.ceil(found.events / PAGE),
    notes: [...notes, ...unread],
    refusal: undefined,
  };
}

export interface BackfillDeps extends Pick<PartsDeps, 'env' | 'clock' | 'random'> {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BackfillProgress) => void;
  readonly write: (pieces: Iterable<string>) => Promise<void>;
}

/**
 * Writes the counters and histograms that an agent would have exposed during a past range, one point per minute. Skips
 * accounts whose range cannot be written. Rejects with StoreError, or with the service's error.
 */
export function backfill(loaded: LoadedConfig, order: BackfillOrder, deps: BackfillDeps): Promise<Backfilled[]> {
  return withClosing(async closing => {
    const { config } = loaded;
    const { accounts, store } = await openForReading(loaded, deps, closing);
    const file = createSeriesFile(order.labels);
    closing.add('temporary file', file.close);
    const done: Backfilled[] = [];
    for (const settings of config.accounts) {
      const account = accounts.find(({ name }) => name === settings.name);
      if (!account || !settings.collect.events.enabled) continue;
      const how = reading(settings, loaded);
      const now = deps.clock.now();
      try {
        const part = partOf(order, settings, await countedSince(settings, how, store), now);
        done.push(await fill(part, account, how, file, deps));
        file.endAccount();
      } catch (error) {
        if (error instanceof UpstreamError) throw new Error(`${settings.name}: ${error.message}`, { cause: error });
        if (!(error instanceof Refusal)) throw error;
        const cost = { events: 0, requests: 0, leastRequests: 0 };
        done.push({ account: settings.name, written: undefined, ...cost, notes: [], refusal: error.message });
      }
    }
    if (done.some(({ written }) => written)) await deps.write(file.text());
    return done;
  });
}
