import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { gauge, type Sample } from '../metrics/family.ts';
import type { FlowControlEntry } from '../model/message.ts';
import { type Members, OTHER, seriesDropped } from './cap.ts';
import { type Collector, defineKind, type Folded } from './collector.ts';
import { createKeyList, type FlowControlFacts, type ReadList } from './key-list.ts';

export type { FlowControlFacts } from './key-list.ts';

const globs = z.array(z.string().min(1)).max(1000).default([]);

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the flow-control keys.'),
  every: Duration.prefault('15s').describe('Interval between reads of the key list: one request each.'),
  include: globs.describe('Keys to show, `*` for any characters: `[tenant-*]`. Default: all.'),
  exclude: globs.describe('Keys not to show, even if `include` matches them.'),
  maxSeries: z
    .int()
    .min(1)
    .max(100_000)
    .default(1000)
    .describe(
      'Maximum number of keys with their own series: those with the largest waitlists. The rest is summed as `__other__`.',
    ),
  watch: z
    .array(z.string().min(1).max(512))
    .max(100)
    .default([])
    .describe(
      'Keys to read individually, more often than the list; shown regardless of `include`, `exclude` and `maxSeries`. The newest observation of a key wins.',
    ),
  watchEvery: Duration.prefault('5s').describe('Interval between reads of the keys in `watch`: one request per key.'),
});

export type FlowControlOptions = z.output<typeof options>;

interface Memory {
  /** The keys within the cap in the last rounds. */
  readonly members: Members;
  /** What the last list said. */
  readonly list: FlowControlFacts | undefined;
  /** Keys that it did not list and that stayed as they were, and in how many lists, one after the other. */
  readonly kept: ReadonlyMap<string, number>;
  /** Watched keys that were read alone since that list: these are newer. */
  readonly alone: ReadonlyMap<string, FlowControlEntry>;
  /** Watched keys that the service has named at any time. */
  readonly known: ReadonlySet<string>;
  /** Whether any key was ever found alone: until then it may be the path that is missing, and not the key. */
  readonly foundAlone: boolean;
}

const perKey = (name: string, help: string) =>
  gauge(
    `delivery_flow_control_${name}`,
    `${help}, from the last complete read of the key list in the background. Only where the service reports it.`,
    ['flow_control_key'],
  );

/** Waitlists by flow-control key. The service lists all keys in one answer. */
export const flowControl = defineKind({
  name: 'flow_control',
  configKey: 'flowControl',
  options,
  families: {
    waitlistSize: gauge(
      'delivery_flow_control_waitlist_size',
      'Messages or steps that wait on the flow-control key, from the last complete read of the key list in the background. A key that the service no longer lists has no series. __other__: sum of all keys beyond flowControl.maxSeries.',
      ['flow_control_key'],
    ),
    keys: gauge(
      'delivery_flow_control_keys',
      'Distinct flow-control keys in the last complete read of the key list in the background, before include, exclude and caps. Unreadable rows are included.',
    ),
    parallelismLimit: perKey('parallelism_limit', 'Maximum concurrent deliveries of the flow-control key'),
    parallelismInUse: perKey('parallelism_in_use', 'Deliveries of the flow-control key in progress'),
    rateLimit: perKey(
      'rate_limit',
      'Maximum deliveries of the flow-control key that may start in one rate-limit period',
    ),
    rateUsed: perKey('rate_used', 'Deliveries of the flow-control key started in the current rate-limit period'),
    ratePeriod: perKey('rate_period_seconds', 'Rate-limit period of the flow-control key'),
    paused: perKey('paused', '1 while deliveries of the flow-control key are paused, else 0'),
    seriesDropped,
  },
  rounds: ({ every, watch, watchEvery }: FlowControlOptions) => ({
    list: { every, requests: 1, priority: 'flow_control' },
    ...(watch.length > 0 && { watch: { every: watchEvery, requests: watch.length, priority: 'flow_control' } }),
  }),
  auxiliary: ['watch'],
  create: createFlowControl,
  samples({ keys, shown, beyondCap, beyondCapWaiting }: FlowControlFacts) {
    // There may be many: each has the same labels in all families.
    const labelled = shown.map(entry => ({ entry, labels: { flow_control_key: entry.key } }));
    const each = (pick: (entry: FlowControlEntry) => number | undefined) => {
      const samples: Sample<'flow_control_key'>[] = [];
      for (const { entry, labels } of labelled) {
        const value = pick(entry);
        if (value !== undefined) samples.push({ labels, value });
      }
      return samples;
    };
    const other = beyondCap > 0 ? [{ labels: { flow_control_key: OTHER }, value: beyondCapWaiting }] : [];
    return {
      waitlistSize: [...each(entry => entry.waitlistSize), ...other],
      keys: keys === undefined ? [] : [{ labels: {}, value: keys }],
      parallelismLimit: each(entry => entry.parallelismLimit),
      parallelismInUse: each(entry => entry.parallelismInUse),
      rateLimit: each(entry => entry.rateLimit),
      rateUsed: each(entry => entry.rateUsed),
      ratePeriod: each(entry => entry.ratePeriodSeconds),
      paused: each(entry => (entry.paused === undefined ? undefined : Number(entry.paused))),
      seriesDropped: [{ labels: { family: 'delivery_flow_control_waitlist_size' }, value: beyondCap }],
    };
  },
});

export function createFlowControl(options: FlowControlOptions): Collector<FlowControlFacts, Memory, never> {
  return {
    ...flowControl,
    rounds: flowControl.rounds(options),
    restore: () => ({
      members: new Map(),
      list: undefined,
      kept: new Map(),
      alone: new Map(),
      known: new Set(),
      foundAlone: false,
    }),
    async observe({ api, memory, round, signal }) {
      if (round === 'watch') {
        const read: [string, FlowControlEntry | undefined][] = [];
        for (const key of options.watch) read.push([key, await api.flowControlKey(key, signal)]);
        return { fold: memory => foldAlone(memory, read), more: undefined };
      }
      const before = {
        members: memory.members,
        shown: newest(memory),
        timesKept: (key: string) => (memory.alone.has(key) ? 0 : (memory.kept.get(key) ?? 0)),
      };
      const { into, rejected } = await api.flowControl(signal, () => createKeyList(options, before));
      const list = into.end(rejected);
      return { fold: memory => foldList(memory, list, options), isPartial: rejected > 0, more: undefined };
    },
  };
}

/** What is known of each key that is shown, whichever read of it is newer. */
const newest = ({ list = NO_LIST, alone }: Memory) => [
  ...list.shown.filter(({ key }) => !alone.has(key)),
  ...alone.values(),
];

/** A new list: it is newer than all that was read before it. */
function foldList(
  memory: Memory,
  { facts: { shown, ...counts }, has, members, kept, isWhole }: ReadList,
  { watch }: FlowControlOptions,
): Folded<FlowControlFacts, Memory> {
  const known = new Set([...memory.known, ...watch.filter(has)]);
  // An idle key may be left out of the list; a watched one is known to be there and to have nothing waiting, unless its row
  // is one of those that could not be read.
  const unlisted = isWhole ? [...known].filter(key => !has(key)) : [];
  const idle = unlisted.map(key => ({ key, waitlistSize: 0 }));
  const facts = { ...counts, shown: [...shown, ...idle] };
  return { facts, memory: { ...memory, members, list: facts, kept, alone: new Map(), known }, changes: [] };
}

/** Keys that were read alone; those that the service would not show alone are left to the list. */
function foldAlone(
  memory: Memory,
  read: readonly (readonly [key: string, entry: FlowControlEntry | undefined])[],
): Folded<FlowControlFacts, Memory> {
  const found = read.flatMap(([key, entry]) => (entry ? [[key, entry] as const] : []));
  const known = new Set([...memory.known, ...found.map(([key]) => key)]);
  const foundAlone = memory.foundAlone || found.length > 0;
  // An idle key may be missing.
  const missing = read.flatMap(([key, entry]) =>
    foundAlone && !entry && known.has(key) ? [[key, { key, waitlistSize: 0 }] as const] : [],
  );
  const alone = new Map([...memory.alone, ...found, ...missing]);
  const facts = { ...(memory.list ?? NO_LIST), shown: newest({ ...memory, alone }) };
  return { facts, memory: { ...memory, alone, known, foundAlone }, changes: [] };
}

const NO_LIST: FlowControlFacts = { keys: undefined, shown: [], beyondCap: 0, beyondCapWaiting: 0 };
