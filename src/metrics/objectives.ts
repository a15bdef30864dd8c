import { type Family, gauge, type Sample } from './family.ts';

/** What the user expects of an account's messages. Times: milliseconds. */
export interface Objectives {
  /** Share of ended messages that are delivered, above 0 and below 1. */
  readonly delivered: number;
  /** Share of messages that end within `onTimeWithin`, above 0 and below 1. */
  readonly onTime: number;
  readonly onTimeWithin: number;
  readonly window: number;
  /** Age from which an entry of the dead-letter queue is too old. */
  readonly dlqMaxAge: number;
}

export const OBJECTIVES = ['delivered', 'on_time'] as const;

/** Every family of what is set: rules and dashboards join with them, so that they need not be generated for each account. */
export const objectiveFamilies = {
  ratio: gauge(
    'delivery_objective_ratio',
    'Objective as configured: delivered: share of ended messages that are delivered; on_time: share of messages that end within delivery_on_time_target_seconds of when they were due.',
    ['objective'],
  ),
  onTimeTarget: gauge(
    'delivery_on_time_target_seconds',
    'Time within which a message is to end, from when it was due, as configured. delivery_messages_overdue_total counts those that did not.',
  ),
  window: gauge('delivery_objective_window_seconds', 'Time over which the objectives are meant, as configured.'),
  dlqMaxAge: gauge(
    'delivery_dlq_max_age_seconds',
    'Age from which an entry of the dead-letter queue is too old, as configured.',
  ),
} as const;

const inSeconds = (ms: number): readonly Sample[] => [{ labels: {}, value: ms / 1000 }];

export function objectiveSamples(objectives: Objectives): readonly (readonly [Family, readonly Sample[]])[] {
  const { delivered, onTime, onTimeWithin, window, dlqMaxAge } = objectives;
  const ratios = { delivered, on_time: onTime } satisfies Record<(typeof OBJECTIVES)[number], number>;
  const samples = Object.entries(ratios).map(([objective, value]) => ({ labels: { objective }, value }));
  return [
    [objectiveFamilies.ratio, samples],
    [objectiveFamilies.onTimeTarget, inSeconds(onTimeWithin)],
    [objectiveFamilies.window, inSeconds(window)],
    [objectiveFamilies.dlqMaxAge, inSeconds(dlqMaxAge)],
  ];
}
