import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { recordOf } from '../../kit/record.ts';
import { gauge, type Sample } from '../../metrics/family.ts';
import { FLOW_STATES } from '../../model/flow-state.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import { type Members, OTHER, seriesDropped } from '../cap.ts';
import { type Collector, defineKind, type Folded, optionalSample, toSeconds } from '../collector.ts';
import { createKeyList, type KeyFacts, type ReadList } from '../key-list.ts';
import type { Attempts } from './attempts.ts';
import { type Audit, type AuditedKey, createAudit } from './audit.ts';

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
  audit: z
    .union([z.boolean(), z.literal('auto')], { error: 'must be true, false or auto' })
    .default('auto')
    .describe(
      'Whether the state of each key is determined: `true`, `false`, or `auto` (if the service reports parallelism). See docs/flow-control.md.',
    ),
  watchEvery: Duration.prefault('5s').describe(
    'Interval between reads of the keys in `watch`, at one request per key.',
  ),
});

export type FlowControlOptions = z.output<typeof options>;

export interface FlowControlServices {
  /** Returns the attempts of the event log by key, or undefined if the log is not read or its data is withdrawn. */
  readonly attempts?: (() => Attempts | undefined) | undefined;
  /** Returns the current time (ms since the Unix epoch). Default: the start of the round. */
  readonly now?: (() => number) | undefined;
}

export interface FlowControlFacts extends KeyFacts {
  /** Audited keys of the last list; undefined without the audit. */
  readonly audited: ReadonlyMap<string, AuditedKey> | undefined;
}

interface Memory {
  readonly members: Members;
  readonly list: FlowControlFacts;
  /** Unlisted keys that keep their values, each with the number of consecutive lists without it. */
  readonly kept: ReadonlyMap<string, number>;
  /** Watched keys read individually since the last list, so these values are newer. */
  readonly individual: ReadonlyMap<string, FlowControlEntry>;
  /** Watched keys that the service has ever listed or returned. */
  readonly known: ReadonlySet<string>;
  /** Whether an individual read has ever found its key. Until then, the endpoint may be missing. */
  readonly foundIndividually: boolean;
  /** Undefined without the audit. */
  readonly audit: Audit | undefined;
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
      'Current state of the flow-control key and its reason, determined in the background; always 1. Other states have no series.',
      ['flow_control_key', 'state', 'reason'],
    ),
    stateSince: gauge(
      'delivery_flow_control_state_since_timestamp_seconds',
      'Start of the current state of the flow-control key, determined in the background. Absent if the state is ok.',
      ['flow_control_key'],
    ),
    auditedKeys: gauge(
      'delivery_flow_control_audited_keys',
      'Flow-control keys with their own series, by state; determined in the background.',
      ['state'],
    ),
    ghostSlots: gauge(
      'delivery_flow_control_ghost_slots',
      'Slots of the flow-control key that are in use but have no running attempt, determined in the background. Absent if unknown.',
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
  samples({ keys, shown, beyondCap, beyondCapWaiting, audited }: FlowControlFacts) {
    // There may be 100,000 keys: label objects are shared between families, and a loop is four times as fast as `flatMap`.
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
      keys: optionalSample({}, keys),
      parallelismLimit: each(entry => entry.parallelismLimit),
      parallelismInUse: each(entry => entry.parallelismInUse),
      rateLimit: each(entry => entry.rateLimit),
      rateUsed: each(entry => entry.rateUsed),
      ratePeriod: each(entry => entry.ratePeriodSeconds),
      paused: each(entry => (entry.paused === undefined ? undefined : Number(entry.paused))),
      ...(audited && auditSamples(audited)),
      seriesDropped: [{ labels: { family: 'delivery_flow_control_waitlist_size' }, value: beyondCap }],
    };
  },
});

/** Returns the start of a key's state (ms since the Unix epoch); undefined if the key is ok. */
export const stateSince = ({ state, since }: AuditedKey) => (state === 'ok' ? undefined : since);

/** Returns the time until the waitlist is empty (s); undefined unless it shrinks steadily. */
export const secondsToDrain = ({ drainsIn }: AuditedKey) =>
  drainsIn === undefined ? undefined : Math.round(drainsIn / 1000);

function auditSamples(audited: ReadonlyMap<string, AuditedKey>) {
  const keys = [...audited];
  const counts = recordOf(FLOW_STATES, () => 0);
  for (const [, { state }] of keys) counts[state] += 1;
  const each = (pick: (key: AuditedKey) => number | undefined) =>
    keys.flatMap(([flow_control_key, key]) => optionalSample({ flow_control_key }, pick(key)));
  return {
    state: keys.map(([flow_control_key, { state, reason }]) => ({
      labels: { flow_control_key, state, reason },
      value: 1,
    })),
    stateSince: each(key => toSeconds(stateSince(key))),
    auditedKeys: FLOW_STATES.map(state => ({ labels: { state }, value: counts[state] })),
    ghostSlots: each(({ ghosts }) => ghosts),
    timeToDrain: each(secondsToDrain),
  };
}

export function createFlowControl(
  options: FlowControlOptions,
  { attempts, now: clock }: FlowControlServices = {},
): Collector<FlowControlFacts, Memory, never> {
  return {
    ...flowControl,
    rounds: flowControl.rounds(options),
    restore: rows => ({
      members: new Map(),
      list: NO_LIST,
      kept: new Map(),
      individual: new Map(),
      known: new Set(),
      foundIndividually: false,
      audit: options.audit === false ? undefined : createAudit(options.audit === true, rows.get('audit')),
    }),
    async observe({ api, memory, round, now, signal }) {
      if (round === 'watch') {
        const read: [string, FlowControlEntry | undefined][] = [];
        for (const key of options.watch) read.push([key, await api.flowControlKey(key, signal)]);
        return { fold: memory => foldIndividual(memory, read), more: undefined };
      }
      const before = {
        members: memory.members,
        shown: newest(memory),
        timesKept: (key: string) => (memory.individual.has(key) ? 0 : (memory.kept.get(key) ?? 0)),
      };
      const keys = createKeyList(options, before);
      const rejected = await api.flowControl(signal, keys.add);
      const list = keys.end(rejected);
      const read = { from: now, now: Math.max(now, clock?.() ?? now), attempts };
      return { fold: memory => foldList(memory, list, options, read), isPartial: rejected > 0, more: undefined };
    },
  };
}

const newest = ({ list, individual }: Memory) => [
  ...list.shown.filter(({ key }) => !individual.has(key)),
  ...individual.values(),
];

function foldList(
  memory: Memory,
  { facts: { shown, ...counts }, has, members, kept, isComplete }: ReadList,
  { watch }: FlowControlOptions,
  { attempts, ...read }: { from: number; now: number; attempts: FlowControlServices['attempts'] },
): Folded<FlowControlFacts, Memory> {
  const known = new Set([...memory.known, ...watch.filter(has)]);
  // The service may omit idle keys. An unlisted watched key is idle, unless an unreadable row may be its own.
  const unlisted = isComplete ? [...known].filter(key => !has(key)) : [];
  const idle = unlisted.map(key => ({ key, waitlistSize: 0 }));
  const entries = [...shown, ...idle];
  const { audit } = memory;
  const isAll = isComplete && counts.beyondCap === 0 && entries.length === counts.keys;
  const audited = audit?.evaluate({ ...read, entries, isComplete: isAll, attempts: attempts?.() });
  const row = audited && attempts ? audit?.row() : undefined;
  const facts = { ...counts, shown: entries, audited };
  return {
    facts,
    memory: { ...memory, members, list: facts, kept, individual: new Map(), known },
    changes: row === undefined ? [] : [{ key: 'audit', value: row }],
  };
}

/** Folds individual reads of watched keys. Until such a read finds a key, missing keys keep the list's values. */
function foldIndividual(
  memory: Memory,
  read: readonly (readonly [key: string, entry: FlowControlEntry | undefined])[],
): Folded<FlowControlFacts, Memory> {
  const found = read.flatMap(([key, entry]) => (entry ? [[key, entry] as const] : []));
  const known = new Set([...memory.known, ...found.map(([key]) => key)]);
  const foundIndividually = memory.foundIndividually || found.length > 0;
  // The service may omit idle keys.
  const missing = read.flatMap(([key, entry]) =>
    foundIndividually && !entry && known.has(key) ? [[key, { key, waitlistSize: 0 }] as const] : [],
  );
  const individual = new Map([...memory.individual, ...found, ...missing]);
  const facts = { ...memory.list, shown: newest({ ...memory, individual }) };
  return { facts, memory: { ...memory, individual, known, foundIndividually }, changes: [] };
}

const NO_LIST: FlowControlFacts = {
  keys: undefined,
  shown: [],
  beyondCap: 0,
  beyondCapWaiting: 0,
  audited: undefined,
};
