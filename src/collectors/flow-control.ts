import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { createGlob } from '../kit/glob.ts';
import { gauge } from '../metrics/family.ts';
import type { FlowControlFacts } from '../model/facts.ts';
import type { FlowControlEntry } from '../model/message.ts';
import { chooseMembers, type Members, OTHER, seriesDropped } from './cap.ts';
import { defineCollector, type ObserveContext } from './collector.ts';

const globs = z.array(z.string().min(1)).max(1000).default([]);

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the flow-control keys.'),
  every: Duration.prefault('15s').describe('Time between two reads of the list of keys: one call each.'),
  include: globs.describe('Keys to show, `*` for any characters: `[tenant-*]`. Default: all.'),
  exclude: globs.describe('Keys not to show, though they are included.'),
  maxSeries: z
    .int()
    .min(1)
    .max(100_000)
    .default(1000)
    .describe('Keys shown at most: those with the largest waitlists; the sum of the others is shown as `__other__`.'),
});

type Options = z.output<typeof options>;

/** The keys shown in the last rounds. */
interface Memory {
  readonly members: Members;
}

const perKey = (name: string, help: string) =>
  gauge(
    `delivery_flow_control_${name}`,
    `${help}, from the last complete read of the list of keys in the background. Only where the service reports it.`,
    ['flow_control_key'],
  );

/** Waitlists by flow-control key. The service lists all keys in one answer. */
export const flowControl = defineCollector({
  name: 'flow_control',
  configKey: 'flowControl',
  options,
  families: {
    waitlistSize: gauge(
      'delivery_flow_control_waitlist_size',
      'Messages or steps waiting on the flow-control key, from the last complete read of the list of keys in the background. A key the service no longer lists is gone. __other__ is the sum of all keys beyond flowControl.maxSeries.',
      ['flow_control_key'],
    ),
    keys: gauge(
      'delivery_flow_control_keys',
      'Distinct flow-control keys in the last complete read of the list of keys in the background, before include, exclude and caps.',
    ),
    parallelismLimit: perKey('parallelism_limit', 'Most deliveries of the key at the same time'),
    parallelismInUse: perKey('parallelism_in_use', 'Deliveries of the key under way'),
    rateLimit: perKey('rate_limit', 'Most deliveries of the key to start in one period'),
    rateUsed: perKey('rate_used', 'Deliveries of the key started in the present period'),
    ratePeriod: perKey('rate_period_seconds', 'Length of the period of the rate limit of the key'),
    paused: perKey('paused', '1 while deliveries of the key are paused, else 0'),
    seriesDropped,
  },
  rounds: ({ every }) => ({ list: every }),
  restore: (): Memory => ({ members: new Map() }),

  async observe({ api, options, memory, signal }: ObserveContext<Options, Memory, never>) {
    const { rows } = await api.flowControl(signal);
    // A key listed twice is one key; its last row counts.
    const listed = new Map(rows.map(row => [row.key, row]));
    const isShown = keyFilter(options);
    const wanted = [...listed.values()].filter(({ key }) => isShown(key));
    // A key that bears the name of the rest is part of the rest, or it could not be told from it.
    const sizes = new Map(
      wanted.filter(({ key }) => key !== OTHER).map(({ key, waitlistSize }) => [key, waitlistSize]),
    );
    const members = chooseMembers(sizes, memory.members, options.maxSeries);
    const beyond = wanted.filter(({ key }) => !members.has(key));
    const facts: FlowControlFacts = {
      keys: listed.size,
      shown: wanted.filter(({ key }) => members.has(key)),
      beyondCap: beyond.length,
      beyondCapWaiting: beyond.reduce((sum, { waitlistSize }) => sum + waitlistSize, 0),
    };
    return { facts, memory: { members }, changes: [], more: undefined };
  },

  samples({ keys, shown, beyondCap, beyondCapWaiting }: FlowControlFacts) {
    const each = (pick: (entry: FlowControlEntry) => number | undefined) =>
      shown.flatMap(entry => {
        const value = pick(entry);
        return value === undefined ? [] : [{ labels: { flow_control_key: entry.key }, value }];
      });
    const other = beyondCap > 0 ? [{ labels: { flow_control_key: OTHER }, value: beyondCapWaiting }] : [];
    return {
      waitlistSize: [...each(entry => entry.waitlistSize), ...other],
      keys: [{ labels: {}, value: keys }],
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

/** Which keys a configuration shows. */
function keyFilter({ include, exclude }: Options): (key: string) => boolean {
  const [included, excluded] = [include.map(createGlob), exclude.map(createGlob)];
  return key =>
    (included.length === 0 || included.some(matches => matches(key))) && !excluded.some(matches => matches(key));
}
