import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { gauge, type Sample } from '../../metrics/family.ts';
import { type FlowState, flowStateOf } from '../../model/flow-state.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import { type Members, OTHER, seriesDropped } from '../cap.ts';
import { type Collector, defineKind, type Folded, optionalSample, toSeconds } from '../collector.ts';
import { createKeyList, type KeyFacts, type ReadList } from '../key-list.ts';
import { addSample, timeToDrain, type WaitlistSample } from './drain.ts';

const globs = z.array(z.string().min(1)).max(1000).default([]);

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Whether flow-control keys are read.'),
  every: Duration.prefault('15s').describe('Interval between reads of the key list. Each read takes one request.'),
  include: globs.describe('Keys to show, with `*` for any characters: `[tenant-*]`. Default: all.'),
  exclude: globs.describe('Keys not to show, even if `include` matches them.'),
  maxSeries: z
    .int()
    .min(1)
    .max(100_000)
    .default(1000)
    .describe(
      'Maximum number of keys with their own series, largest waitlists first. `__other__` is the sum of the others.',
    ),
  watch: z
    .array(z.string().min(1).max(512))
    .max(100)
    .default([])
    .describe('Keys that are also read individually, and always shown.'),
  watchEvery: Duration.prefault('5s').describe(
    'Interval between reads of the keys in `watch`, at one request per key.',
  ),
});

export type FlowControlOptions = z.output<typeof options>;

export interface FlowControlServices {
  /** Returns the current time (ms since the Unix epoch). Default: the start of the round. */
  readonly now?: (() => number) | undefined;
}

/** The last read of a key, and the results of all its reads. */
export interface TrackedKey extends FlowControlEntry {
  /** Undefined until it can be decided. */
  readonly state?: FlowState | undefined;
  /** Time of the first of the consecutive reads with this state (ms since the Unix epoch); undefined without a state. */
  readonly since?: number | undefined;
  /** Time until the waitlist is empty (ms); undefined unless it shrinks steadily. */
  readonly drainsIn?: number | undefined;
  /** Samples of the waitlist since its maximum; empty for a paused or idle key. */
  readonly samples?: readonly WaitlistSample[];
}

export interface FlowControlFacts extends KeyFacts {
  readonly shown: readonly TrackedKey[];
}

type TrackedKeys = ReadonlyMap<string, TrackedKey>;

interface Memory {
  readonly members: Members;
  /** Counts of the last list. */
  readonly counts: Omit<KeyFacts, 'shown'>;
  /** Shown keys with their last read. */
  readonly keys: TrackedKeys;
  /** Unlisted keys that keep their values, each with the number of consecutive lists without it. */
  readonly kept: ReadonlyMap<string, number>;
  /** Watched keys that the service has ever listed or returned. */
  readonly known: ReadonlySet<string>;
  /** Whether an individual read has ever found its key. Until then, the endpoint may be missing. */
  readonly foundIndividually: boolean;
}

const perKey = (name: string, help: string) =>
  gauge(`delivery_flow_control_${name}`, `${help}, read in the background.`, ['flow_control_key']);

export const flowControl = defineKind({
  name: 'flow_control',
  title: 'Flow-control keys',
  configKey: 'flowControl',
  options,
  families: {
    waitlistSize: gauge(
      'delivery_flow_control_waitlist_size',
      'Messages or workflow steps waiting on the flow-control key, read in the background.',
      ['flow_control_key'],
    ),
    keys: gauge(
      'delivery_flow_control_keys',
      'Number of all flow-control keys that the service lists, read in the background. An unreadable row counts as a key.',
    ),
    parallelismLimit: perKey('parallelism_limit', 'Maximum concurrent deliveries for the flow-control key'),
    parallelismInUse: perKey('parallelism_in_use', 'Deliveries in progress for the flow-control key'),
    rateLimit: perKey('rate_limit', 'Maximum deliveries per rate-limit period for the flow-control key'),
    rateUsed: perKey('rate_used', 'Deliveries started in the current rate-limit period for the flow-control key'),
    ratePeriod: perKey('rate_period_seconds', 'Rate-limit period of the flow-control key'),
    paused: perKey('paused', 'Whether deliveries for the flow-control key are paused (1) or not (0)'),
    state: gauge(
      'delivery_flow_control_state',
      'Current state of the flow-control key, determined in the background; always 1. Other states have no series.',
      ['flow_control_key', 'state'],
    ),
    stateSince: gauge(
      'delivery_flow_control_state_since_timestamp_seconds',
      'Start of the current state of the flow-control key, determined in the background. Reset by a restart of the agent.',
      ['flow_control_key'],
    ),
    timeToDrain: gauge(
      'delivery_flow_control_time_to_drain_seconds',
      'Time until the waitlist of the flow-control key is empty, estimated in the background. Absent unless the waitlist shrinks steadily.',
      ['flow_control_key'],
    ),
    seriesDropped,
  },
  rounds: ({ every, watch, watchEvery }: FlowControlOptions) => ({
    list: { every, requests: 1, priority: 'flow_control' },
    ...(watch.length > 0 && { watch: { every: watchEvery, requests: watch.length, priority: 'flow_control' } }),
  }),
  auxiliary: ['watch'],
  create: createFlowControl,
  samples({ keys, shown, beyondCap, beyondCapWaiting }: FlowControlFacts) {
    // There may be 100,000 keys: label objects are shared between families, and a loop is four times as fast as `flatMap`.
    const labelled = shown.map(key => ({ key, labels: { flow_control_key: key.key } }));
    const each = (pick: (key: TrackedKey) => number | undefined) => {
      const samples: Sample<'flow_control_key'>[] = [];
      for (const { key, labels } of labelled) {
        const value = pick(key);
        if (value !== undefined) samples.push({ labels, value });
      }
      return samples;
    };
    const states: Sample<'flow_control_key' | 'state'>[] = [];
    for (const { key, state } of shown) {
      if (state !== undefined) states.push({ labels: { flow_control_key: key, state }, value: 1 });
    }
    const other = beyondCap > 0 ? [{ labels: { flow_control_key: OTHER }, value: beyondCapWaiting }] : [];
    return {
      waitlistSize: [...each(key => key.waitlistSize), ...other],
      keys: optionalSample({}, keys),
      parallelismLimit: each(key => key.parallelismLimit),
      parallelismInUse: each(key => key.parallelismInUse),
      rateLimit: each(key => key.rateLimit),
      rateUsed: each(key => key.rateUsed),
      ratePeriod: each(key => key.ratePeriodSeconds),
      paused: each(key => (key.paused === undefined ? undefined : Number(key.paused))),
      state: states,
      stateSince: each(key => toSeconds(key.since)),
      timeToDrain: each(secondsToDrain),
      seriesDropped: [{ labels: { family: 'delivery_flow_control_waitlist_size' }, value: beyondCap }],
    };
  },
});

/** Returns the time until the waitlist is empty (s); undefined unless it shrinks steadily. */
export const secondsToDrain = ({ drainsIn }: TrackedKey) =>
  drainsIn === undefined ? undefined : Math.round(drainsIn / 1000);

/** Adds a read of a key. `before`: the key after its previous read; `at`: time of the response (ms since the Unix epoch). */
function track(before: TrackedKey | undefined, entry: FlowControlEntry, at: number): TrackedKey {
  const state = flowStateOf(entry, before);
  const since = state === before?.state ? before?.since : at;
  const isStopped = state === 'paused' || state === 'idle';
  const samples = isStopped ? [] : addSample(before?.samples ?? [], { at, waitlistSize: entry.waitlistSize });
  return { ...entry, state, since, samples, drainsIn: timeToDrain(samples) };
}

export function createFlowControl(
  options: FlowControlOptions,
  { now: clock }: FlowControlServices = {},
): Collector<FlowControlFacts, Memory, never> {
  return {
    ...flowControl,
    rounds: flowControl.rounds(options),
    restore: (_rows, last) => ({
      members: new Map(),
      // A watched key may be read before the first list.
      counts: last ?? { keys: undefined, beyondCap: 0, beyondCapWaiting: 0 },
      keys: new Map(last?.shown.map(shown => [shown.key, shown])),
      kept: new Map(),
      known: new Set(),
      foundIndividually: false,
    }),
    async observe({ api, memory, round, now, signal }) {
      if (round === 'watch') {
        const read: IndividualRead[] = [];
        for (const key of options.watch) {
          const entry = await api.flowControlKey(key, signal);
          read.push({ key, entry, at: clock?.() ?? now });
        }
        return { fold: memory => foldIndividual(memory, read), more: undefined };
      }
      const before = {
        members: memory.members,
        shown: [...memory.keys.values()],
        timesKept: (key: string) => memory.kept.get(key) ?? 0,
      };
      const keys = createKeyList(options, before);
      const rejected = await api.flowControl(signal, keys.add);
      const list = keys.end(rejected);
      const at = clock?.() ?? now;
      return { fold: memory => foldList(memory, list, options, at), isPartial: rejected > 0, more: undefined };
    },
  };
}

function foldList(
  memory: Memory,
  { facts: { shown, ...counts }, has, members, kept, isComplete }: ReadList,
  { watch }: FlowControlOptions,
  at: number,
): Folded<FlowControlFacts, Memory> {
  const known = new Set([...memory.known, ...watch.filter(has)]);
  // The service may omit idle keys. An unlisted watched key is idle, unless an unreadable row may be its own.
  const unlisted = isComplete ? [...known].filter(key => !has(key)) : [];
  const idle = unlisted.map(key => ({ key, waitlistSize: 0 }));
  const keys = new Map<string, TrackedKey>();
  for (const entry of [...shown, ...idle]) {
    const before = memory.keys.get(entry.key);
    // A key that keeps its values has not been read.
    keys.set(entry.key, before && kept.has(entry.key) ? before : track(before, entry, at));
  }
  return fold({ ...memory, members, counts, keys, kept, known });
}

/** Read of a watched key. `entry`: undefined if the service does not find it. */
interface IndividualRead {
  readonly key: string;
  readonly entry: FlowControlEntry | undefined;
  readonly at: number;
}

/** Folds individual reads of watched keys. Until such a read finds a key, missing keys keep the list’s values. */
function foldIndividual(memory: Memory, read: readonly IndividualRead[]): Folded<FlowControlFacts, Memory> {
  const found = read.filter(({ entry }) => entry !== undefined).map(({ key }) => key);
  const known = new Set([...memory.known, ...found]);
  const foundIndividually = memory.foundIndividually || found.length > 0;
  const keys = new Map(memory.keys);
  const kept = new Map(memory.kept);
  for (const { key, entry, at } of read) {
    // The service may omit idle keys.
    const idle = foundIndividually && known.has(key) ? { key, waitlistSize: 0 } : undefined;
    const current = entry ?? idle;
    if (!current) continue;
    keys.set(key, track(keys.get(key), current, at));
    kept.delete(key);
  }
  return fold({ ...memory, keys, kept, known, foundIndividually });
}

const fold = (memory: Memory): Folded<FlowControlFacts, Memory> => ({
  facts: { ...memory.counts, shown: [...memory.keys.values()] },
  memory,
  changes: [],
});
