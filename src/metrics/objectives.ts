import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { type Family, gauge, type Sample } from './family.ts';

const ratio = z
  .number()
  .gt(0, { error: 'must be above 0' })
  .lt(1, { error: 'must be below 1, such as 0.99: an objective of 1 leaves no error budget' });

export const objectivesOptions = z.strictObject({
  delivered: ratio
    .default(0.99)
    .describe('Target share of delivered messages among ended messages. The rest is the error budget.'),
  onTime: ratio
    .default(0.99)
    .describe(
      'Target share of messages that are delivered within `onTimeWithin`. Failed messages count as not on time.',
    ),
  onTimeWithin: Duration.prefault('5m').describe(
    'Maximum time from a message’s due time to its delivery. Changing this value does not affect earlier messages.',
  ),
  window: Duration.prefault('30d').describe('Period to which `delivered` and `onTime` apply.'),
  dlqMaxAge: Duration.prefault('1d').describe('Age at which a dead letter counts as too old.'),
});

export type Objectives = z.output<typeof objectivesOptions>;

/** Rules and dashboards join with these families instead of being generated per account. */
export const objectiveFamilies = {
  ratio: gauge(
    'delivery_objective_ratio',
    'Configured objective. delivered: share of ended messages that are delivered. on_time: share of messages that are delivered within delivery_on_time_target_seconds after they are due.',
    ['objective'],
  ),
  onTimeTarget: gauge(
    'delivery_on_time_target_seconds',
    'Configured maximum time from a message’s due time to its delivery.',
  ),
  window: gauge('delivery_objective_window_seconds', 'Configured period of the objectives.'),
} as const;

const inSeconds = (ms: number): readonly Sample[] => [{ labels: {}, value: ms / 1000 }];

export function objectiveSamples(objectives: Objectives): readonly (readonly [Family, readonly Sample[]])[] {
  const { delivered, onTime, onTimeWithin, window } = objectives;
  const ratios = Object.entries({ delivered, on_time: onTime });
  const samples = ratios.map(([objective, value]) => ({ labels: { objective }, value }));
  return [
    [objectiveFamilies.ratio, samples],
    [objectiveFamilies.onTimeTarget, inSeconds(onTimeWithin)],
    [objectiveFamilies.window, inSeconds(window)],
  ];
}
