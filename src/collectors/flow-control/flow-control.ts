import { z } from 'zod';
import { withDeadline } from '../../kit/clock.ts';
import { Duration, MINUTE } from '../../kit/duration.ts';
import { intOption } from '../../kit/option.ts';
import type { Change } from '../../model/change.ts';
import { flowStateOf } from '../../model/flow-state.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import type { GlobalParallelism } from '../../model/service.ts';
import type { Reader } from '../../upstream/api.ts';
import { isMissingPath, UpstreamError } from '../../upstream/errors.ts';
import { type Collector, defineKind, type Folded } from '../collector.ts';
import { addSample, timeToDrain } from './drain.ts';
import { type FlowControlFacts, flowControlFamilies, type TrackedKey } from './families.ts';
import { chooseKeys } from './key-list.ts';
import { followLimits, restoreLimits, shownLimits, type TrackedLimits } from './limits.ts';

/** Time for which the last value is used while newer reads fail (ms). */
const VALID_FOR = 2 * MINUTE;
/** Interval of the reads if the service lacks the path (ms). */
const PROBE_EVERY = 60 * MINUTE;
/** Maximum duration of a read (ms), because the keys of the same round have to wait for it. */
const TIMEOUT = 5000;

/**
 * Creates a function that reads the account's parallelism at most once a minute. The function returns undefined if the service
 * lacks this value, and an empty object if the value is unknown. It rejects only if `signal` is aborted. Call it after keys of
 * the account have been read: a 404 then shows that the service lacks the value.
 */
function createParallelismReader() {
  let last: { readonly value: GlobalParallelism | undefined; readonly at: number } | undefined;
  let [askedAt, nextAt] = [0, 0];
  return async (api: Reader, now: number, signal: AbortSignal): Promise<GlobalParallelism | undefined> => {
    if (now >= nextAt || now < askedAt) {
      // Set before the response arrives, because rounds run concurrently.
      [askedAt, nextAt] = [now, now + MINUTE];
      try {
        last = { value: await withDeadline(TIMEOUT, signal, deadline => api.globalParallelism(deadline)), at: now };
      } catch (error) {
        signal.throwIfAborted();
        if (isMissingPath(error)) {
          last = { value: undefined, at: now };
          nextAt = now + PROBE_EVERY;
        }
      }
    }
    if (!last) return {};
    const isValid = last.value === undefined || Math.abs(now - last.at) < VALID_FOR;
    return isValid ? last.value : {};
  };
}

const globs = z.array(z.string().min(1)).max(1000).default([]);

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Whether the agent reads flow-control keys.'),
  every: Duration.prefault('15s').describe('Interval between reads of the list of keys. Each read takes one request.'),
  include: globs.describe('Keys to show. `*` matches any characters: `[tenant-*]`. Default: all keys.'),
  exclude: globs.describe('Keys to hide, even if `include` matches them.'),
  maxSeries: intOption({ min: 1, max: 100_000, otherwise: 1000 }).describe(
    'Maximum number of keys with separate series (largest waitlists first). `__other__` is the sum of all other keys.',
  ),
  watch: z
    .array(z.string().min(1).max(512))
    .max(100)
    .default([])
    .describe(
      'Keys that are also read one by one, and always shown. A key that the service does not find and does not list is idle.',
    ),
  watchEvery: Duration.prefault('5s').describe(
    'Interval between reads of the keys in `watch`. A read takes one request per key, and one more if the service does not find a key.',
  ),
});

export type FlowControlOptions = z.output<typeof options>;

export interface FlowControlServices {
  /** Returns the current time (ms since the Unix epoch). Default: the start of the round. */
  readonly now?: (() => number) | undefined;
}

type TrackedKeys = ReadonlyMap<string, TrackedKey>;

interface Memory {
  readonly counts: Pick<FlowControlFacts, 'keys' | 'beyondCap' | 'beyondCapWaiting'>;
  /** Shown keys with their last read. */
  readonly keys: TrackedKeys;
  /** Watched keys that the service has ever listed or returned. */
  readonly known: ReadonlySet<string>;
  readonly unlisted: Unlisted;
  readonly limits: TrackedLimits;
  readonly parallelism: FlowControlFacts['parallelism'];
}

/** Watched keys that are missing from the last complete list, as of `at` (ms since the Unix epoch). */
interface Unlisted {
  readonly at: number;
  readonly keys: ReadonlySet<string>;
}

export const flowControl = defineKind({
  name: 'flow_control',
  title: 'Flow-control keys',
  configKey: 'flowControl',
  options,
  families: flowControlFamilies,
  rounds: ({ every, watch, watchEvery }: FlowControlOptions) => ({
    list: {
      every,
      requests: 1,
      why: 'while messages wait, one more call a minute reads the account’s parallelism',
      priority: 'flow_control',
    },
    ...(watch.length > 0 && {
      watch: { every: watchEvery, requests: watch.length, why: 'reads each watched key', priority: 'flow_control' },
    }),
  }),
  auxiliary: ['watch'],
  create: createFlowControl,
});

/** Adds a read of a key. `before`: the key after its previous read; `at`: time of the response (ms since the Unix epoch). */
function track(
  before: TrackedKey | undefined,
  entry: FlowControlEntry,
  at: number,
  account?: GlobalParallelism,
): TrackedKey {
  const state = flowStateOf(entry, before, account);
  const since = state === before?.state ? before?.since : at;
  const isStopped = state === 'paused' || state === 'idle';
  const { waitlistSize } = entry;
  const isSample = !isStopped && waitlistSize !== undefined;
  const samples = isSample ? addSample(before?.samples ?? [], { at, waitlistSize }) : [];
  return { ...entry, state, since, samples, drainsIn: timeToDrain(samples) };
}

export function createFlowControl(
  options: FlowControlOptions,
  { now: clock }: FlowControlServices = {},
): Collector<FlowControlFacts, Memory, never> {
  const readParallelism = createParallelismReader();
  return {
    ...flowControl,
    rounds: flowControl.rounds(options),
    restore: (rows, last) => ({
      // A watched key may be read before the first list.
      counts: last ?? { keys: undefined, beyondCap: 0, beyondCapWaiting: 0 },
      keys: new Map(last?.shown.map(shown => [shown.key, shown])),
      known: new Set(),
      unlisted: { at: 0, keys: new Set() },
      limits: restoreLimits(rows),
      parallelism: undefined,
    }),
    recall: memory => factsOf(memory, options),
    async observe({ api, memory, round, now, signal }) {
      const time = () => clock?.() ?? now;
      if (round === 'watch') {
        const read = await readWatched(api, options, memory, time, signal);
        const isWaiting = read.found.some(({ entry: { waitlistSize = 0 } }) => waitlistSize > 0);
        const account = isWaiting ? { parallelism: await readParallelism(api, time(), signal) } : {};
        return {
          fold: latest => foldIndividual({ ...latest, ...account }, read, options, memory.keys),
          isPartial: read.isPartial,
          more: undefined,
        };
      }
      // A key listed twice counts once, with its last row.
      const rows = new Map<string, FlowControlEntry>();
      let collisions = 0;
      const unreadable = await api.flowControl(signal, entry => {
        // U+FFFD replaces unreadable characters: two keys may become equal.
        if (rows.has(entry.key) && entry.key.includes('\ufffd')) collisions += 1;
        rows.set(entry.key, entry);
      });
      const rejected = unreadable + collisions;
      const at = time();
      const isWaiting = rows.values().some(({ waitlistSize = 0 }) => waitlistSize > 0);
      const parallelism = isWaiting ? await readParallelism(api, at, signal) : undefined;
      return {
        fold: latest => foldList({ ...latest, parallelism }, { rows, rejected, at }, options, memory.keys),
        isPartial: rejected > 0 || rows.values().some(({ isIncomplete }) => isIncomplete),
        more: undefined,
      };
    },
  };
}

interface ReadList {
  readonly rows: ReadonlyMap<string, FlowControlEntry>;
  readonly rejected: number;
  /** Time of the response (ms since the Unix epoch). */
  readonly at: number;
}

function foldList(
  memory: Memory,
  { rows, rejected, at }: ReadList,
  options: FlowControlOptions,
  readFrom: TrackedKeys,
): Folded<FlowControlFacts, Memory> {
  const { watch } = options;
  const { shown, ...counts } = chooseKeys(rows, rejected, options);
  const known = new Set([...memory.known, ...watch.filter(key => rows.has(key))]);
  // The service may omit idle keys. An unlisted watched key is idle, unless an unreadable row may be its own.
  const unlistedKeys = new Set(rejected === 0 ? watch.filter(key => !rows.has(key)) : []);
  const idle = [...known].filter(key => unlistedKeys.has(key)).map(key => ({ key, waitlistSize: 0 }));
  const keys = new Map<string, TrackedKey>();
  for (const entry of [...shown, ...idle]) {
    keys.set(entry.key, track(memory.keys.get(entry.key), entry, at, memory.parallelism));
  }
  const { limits, changes } = followLimits(memory, shown, at, readFrom);
  return fold({ ...memory, counts, keys, known, unlisted: { at, keys: unlistedKeys }, limits }, options, changes);
}

/**
 * Reads the watched keys. A 404 may be due to a wrong path, region or proxy, so a key is missing only if the list of keys lacks
 * it, too. Reuses a recent list if it contains none of the keys with a 404. Throws the 404 of a listed key. `missing`: keys that
 * the service does not find, although it lists the account's keys.
 */
async function readWatched(
  api: Reader,
  { watch, every }: FlowControlOptions,
  memory: Memory,
  time: () => number,
  signal: AbortSignal,
) {
  const found: { readonly entry: FlowControlEntry; readonly at: number }[] = [];
  const notFound = new Map<string, UpstreamError>();
  for (const key of watch) {
    try {
      found.push({ entry: await api.flowControlKey(key, signal), at: time() });
    } catch (error) {
      if (!(error instanceof UpstreamError && error.reason === 'not_found')) throw error;
      notFound.set(key, error);
    }
  }
  const isPartial = found.some(({ entry }) => entry.isIncomplete);
  const missing = [...notFound.keys()];
  const { unlisted } = memory;
  const age = time() - unlisted.at;
  // Lists are read regularly: the last one usually lacks the missing keys, too.
  const isRecent = age >= 0 && age <= 2 * every;
  const isExplained = isRecent && missing.every(key => unlisted.keys.has(key));
  if (missing.length === 0 || isExplained) return { found, missing, unlisted, isPartial };
  const listed = new Set<string>();
  const rejected = await api.flowControl(signal, ({ key }) => listed.add(key));
  for (const [key, error] of notFound) if (listed.has(key)) throw error;
  // An unreadable row may be that of a missing key.
  if (rejected > 0) return { found, missing: [], unlisted, isPartial: true };
  return { found, missing, unlisted: { at: time(), keys: new Set(missing) }, isPartial };
}

/** Folds individual reads of watched keys. A missing key is idle if the service has ever listed or returned it. */
function foldIndividual(
  memory: Memory,
  read: Awaited<ReturnType<typeof readWatched>>,
  options: FlowControlOptions,
  readFrom: TrackedKeys,
): Folded<FlowControlFacts, Memory> {
  const known = new Set(memory.known);
  const keys = new Map(memory.keys);
  // Whether a list that was read concurrently is newer.
  const isOutdated = memory.unlisted.at > read.unlisted.at;
  const { at: listedAt, keys: unlistedKeys } = isOutdated ? memory.unlisted : read.unlisted;
  const unlisted = new Set(unlistedKeys);
  const changes: Change[] = [];
  let { limits } = memory;
  for (const { entry, at } of read.found) {
    const compared = followLimits({ ...memory, limits }, [entry], at, readFrom);
    limits = compared.limits;
    changes.push(...compared.changes);
    keys.set(entry.key, track(keys.get(entry.key), entry, at, memory.parallelism));
    known.add(entry.key);
    unlisted.delete(entry.key);
  }
  for (const key of isOutdated ? [] : read.missing) {
    if (!known.has(key)) continue;
    keys.set(key, track(keys.get(key), { key, waitlistSize: 0 }, listedAt));
  }
  return fold({ ...memory, keys, known, unlisted: { at: listedAt, keys: unlisted }, limits }, options, changes);
}

const factsOf = (
  { counts, keys, limits, parallelism }: Memory,
  { maxSeries }: FlowControlOptions,
): FlowControlFacts => ({
  ...counts,
  shown: [...keys.values()],
  limits: shownLimits(limits, key => keys.has(key), maxSeries),
  parallelism,
});

const fold = (
  memory: Memory,
  options: FlowControlOptions,
  changes: readonly Change[],
): Folded<FlowControlFacts, Memory> => ({ facts: factsOf(memory, options), memory, changes });
