import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { gauge } from '../metrics/family.ts';
import type { FlowControlFacts } from '../model/facts.ts';
import { defineCollector } from './collector.ts';

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the flow-control keys.'),
  every: Duration.prefault('15s').describe('Time between two reads of the list of keys: one call each.'),
});

/** Waitlists by flow-control key. The service lists all keys in one answer. */
export const flowControl = defineCollector({
  name: 'flow_control',
  configKey: 'flowControl',
  options,
  families: {
    waitlistSize: gauge(
      'delivery_flow_control_waitlist_size',
      'Messages or steps waiting on the flow-control key, from the last complete read of the list of keys in the background. A key the service no longer lists is gone.',
      ['flow_control_key'],
    ),
    keys: gauge(
      'delivery_flow_control_keys',
      'Distinct flow-control keys in the last complete read of the list of keys in the background.',
    ),
  },
  rounds: ({ every }) => ({ list: every }),
  restore: () => undefined,

  async observe({ api, signal }) {
    const { rows } = await api.flowControl(signal);
    // A key listed twice is one key; its last size counts.
    const facts: FlowControlFacts = { waitlists: new Map(rows.map(({ key, waitlistSize }) => [key, waitlistSize])) };
    return { facts, memory: undefined, changes: [], more: undefined };
  },

  samples: ({ waitlists }: FlowControlFacts) => ({
    waitlistSize: [...waitlists].map(([key, value]) => ({ labels: { flow_control_key: key }, value })),
    keys: [{ labels: {}, value: waitlists.size }],
  }),
});
