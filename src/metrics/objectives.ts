import { type Family, gauge, type Sample } from './family.ts';

/** Times in milliseconds. */
export interface Objectives {
  /** Target share of finished messages that are delivered, above 0 and below 1. */
  readonly delivered: number;
  /** Target share of messages that finish within `onTimeWithin`, above 0 and below 1. */
  readonly onTime: number;
  readonly onTimeWithin: number;
  readonly window: number;
  readonly dlqMaxAge: number;
}

/** Rules and dashboards join with these families instead of being generated per account. */
export const objectiveFamilies = {
  ratio: gauge(
    'delivery_objective_ratio',
    'Configured objective. delivered: share of ended messages that are delivered; on_time: share that are delivered within delivery_on_time_target_seconds after they are due.',
    ['objective'],
  ),
  onTimeTarget: gauge(
    'delivery_on_time_target_seconds',
    'Configured maximum time between a message’s due time and its end.',
  ),
  window: gauge('delivery_objective_window_seconds', 'Configured period of the objectives.'),
  dlqMaxAge: gauge('delivery_dlq_max_age_seconds', 'Configured age at which a dead letter counts as too old.'),
} as const;

const inSeconds = (ms: number): readonly Sample[] => [{ labels: {}, value: ms / 1000 }];

export function objectiveSamples(objectives: Objectives): readonly (readonly [Family, readonly Sample[]])[] {
  const { delivered, onTime, onTimeWithin, window, dlqMaxAge } = objectives;
  const samples = Object.entries({ delivered, on_time: onTime }).map(([objective, value]) => ({ labels: { objective }, value }));
  return [
    [objectiveFamilies.ratio, samples],
    [objectiveFamilies.onTimeTarget, inSeconds(onTimeWithin)],
    [objectiveFamilies.window, inSeconds(window)],
    [objectiveFamilies.dlqMaxAge, inSeconds(dlqMaxAge)],
  ];
}
