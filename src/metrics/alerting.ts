import type { Counter } from '../kit/counter.ts';
import { counter, gauge, type Sample, type Source } from './family.ts';

const alerts = gauge(
  'delivery_watch_alerts',
  'Alerts of the agent itself, by state, at the last evaluation; 0 where there is none. beyond_cap: series that one alert with the label overflow stands for, as a rule has at most 100 of its own. Shown while `alerts.enabled` is true.',
  ['alert', 'state'],
);

const notifications = counter(
  'delivery_watch_notifications_total',
  'Alerts that were handed to a notifier, each address and repetition counted, since this process began: failed is tried again, dropped is not.',
  ['notifier', 'outcome'],
);

/** Every family about the agent's own alerts. The first carries `account`. */
export const alertingFamilies = { alerts, notifications } as const;

const STATES = ['pending', 'firing'] as const;

/**
 * How many alerts of each rule there are in an account. `present`: the alerts that are pending or firing; `beyondCap`: series
 * of a rule that have none of their own.
 */
export function alertsSource(
  account: string,
  rules: readonly string[],
  present: () => readonly { readonly rule: string; readonly phase: string }[],
  beyondCap: (rule: string) => number,
): Source {
  const samples = (): readonly Sample[] => {
    const found = present();
    return rules.flatMap(alert => [
      ...STATES.map(state => ({
        labels: { alert, state },
        value: found.filter(({ rule, phase }) => rule === alert && phase === state).length,
      })),
      { labels: { alert, state: 'beyond_cap' }, value: beyondCap(alert) },
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
  const counts = new Map(
    notifiers.flatMap(notifier => outcomes.map(outcome => [`${notifier} ${outcome}`, { notifier, outcome, count: 0 }])),
  );
  let revision = 0;
  return {
    counter: {
      inc({ notifier, outcome }, by = 1) {
        const each = counts.get(`${notifier} ${outcome}`);
        if (!each) throw new Error(`there is no notifier ${notifier}, or no outcome ${outcome}`);
        each.count += by;
        revision += 1;
      },
    },
    source: {
      families: [notifications],
      revision: () => revision,
      samples: () =>
        new Map([[notifications.name, [...counts.values()].map(({ count, ...labels }) => ({ labels, value: count }))]]),
    },
  };
}
