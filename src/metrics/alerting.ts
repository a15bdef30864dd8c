import type { Counter } from '../kit/counter.ts';
import { counter, gauge, type Sample, type Source } from './family.ts';
import { createCounter } from './own.ts';

const alerts = gauge(
  'delivery_watch_alerts',
  'The agent’s own alerts by state, at the last evaluation. beyond_cap: series beyond the 100 alerts that a rule may have; one alert with the label overflow represents them. Only if `alerts.enabled` is true.',
  ['alert', 'state'],
);

const notifications = counter(
  'delivery_watch_notifications_total',
  'Notifications of alerts by outcome, each receiver address and repetition counted; restarts at 0 with the process. failed: retried; dropped: not retried.',
  ['notifier', 'outcome'],
);

/** Every family about the agent's own alerts. The first carries `account`. */
export const alertingFamilies = { alerts, notifications } as const;

const STATES = ['pending', 'firing'] as const;

/** What the last evaluation came to, as far as it is counted. */
interface Evaluated {
  readonly alerts: ReadonlyMap<string, { readonly rule: string; readonly state: { readonly phase: string } }>;
  /** By rule: series that have no alert of their own. */
  readonly beyondCap: ReadonlyMap<string, number>;
}

/** How many alerts of each rule there are in an account. */
export function alertsSource(
  account: string,
  rules: readonly { readonly name: string }[],
  current: () => Evaluated,
): Source {
  const samples = (): readonly Sample[] => {
    const { alerts: present, beyondCap } = current();
    return rules.flatMap(({ name: alert }) => [
      ...STATES.map(state => ({
        labels: { alert, state },
        value: [...present.values()].filter(({ rule, state: { phase } }) => rule === alert && phase === state).length,
      })),
      { labels: { alert, state: 'beyond_cap' }, value: beyondCap.get(alert) ?? 0 },
    ]);
  };
  return {
    account,
    families: [alerts],
    revision: () => JSON.stringify(samples()),
    samples: () => new Map([[alerts.name, samples()]]),
  };
}

/** Counts notifications; every outcome of every notifier starts at 0. */
export function createNotificationsCounter(
  notifiers: readonly string[],
  outcomes: readonly string[],
): { readonly counter: Counter<'notifier' | 'outcome'>; readonly source: Source } {
  let revision = 0;
  const known = notifiers.flatMap(notifier => outcomes.map(outcome => ({ notifier, outcome })));
  const kept = createCounter(notifications, known, () => {
    revision += 1;
  });
  return {
    counter: kept,
    source: {
      families: [notifications],
      revision: () => revision,
      samples: () => new Map([[notifications.name, kept.samples()]]),
    },
  };
}
