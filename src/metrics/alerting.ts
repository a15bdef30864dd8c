import { longText } from '../kit/duration.ts';
import { counter, gauge, type Sample, type Source } from './family.ts';
import { createCounter } from './own.ts';
import { ENDED_FOR, MAX_ALERTS } from './thresholds.ts';

const alerts = gauge(
  'delivery_watch_alerts',
  'The agent’s own alerts by state. silenced: firing, but matched by a silence. beyond_cap: above the limit of 100 per rule and account.',
  ['alert', 'state'],
);

const notifications = counter(
  'delivery_watch_notifications_total',
  'Notifications by outcome. sent: successful requests. failed: failed requests, which are retried. dropped: alerts that ended before they could be sent, and auto-cancel notices that were refused or too old.',
  ['notifier', 'outcome'],
);

const problem = gauge(
  'delivery_problem',
  `Problems that built-in checks find: 1 once a problem has lasted for the time \`for\` of its check. After its end, 0 for ${longText(ENDED_FOR)}. Beyond ${MAX_ALERTS} subjects of a kind, __other__ represents the rest.`,
  ['kind', 'severity', 'subject'],
);

export const alertingFamilies = { alerts, notifications, problem } as const;

const STATES = ['pending', 'firing', 'silenced', 'beyond_cap'] as const;
type State = (typeof STATES)[number];

interface CountedAlert {
  readonly rule: string;
  readonly omitted?: number | undefined;
  readonly state: { readonly phase: string };
  readonly silencedBy?: string | undefined;
}

interface Evaluated {
  readonly alerts: ReadonlyMap<string, CountedAlert>;
}

function stateOf({ state: { phase }, silencedBy }: CountedAlert): State | undefined {
  if (phase === 'pending') return 'pending';
  if (phase !== 'firing') return undefined;
  return silencedBy === undefined ? 'firing' : 'silenced';
}

/** Returns a source that counts an account's alerts. Each of `rules` always has a series for each state. */
export function alertsSource(account: string, rules: () => readonly string[], current: () => Evaluated): Source {
  const samples = (): readonly Sample[] => {
    const present = [...current().alerts.values()];
    const counts = new Map<string, number>();
    const add = (alert: string, state: State, number: number) =>
      counts.set(`${alert} ${state}`, (counts.get(`${alert} ${state}`) ?? 0) + number);
    for (const alert of present) {
      const state = stateOf(alert);
      if (state === undefined) continue;
      add(alert.rule, state, 1);
      add(alert.rule, 'beyond_cap', alert.omitted ?? 0);
    }
    const named = new Set(rules());
    return [...named.union(new Set(present.map(({ rule }) => rule)))]
      .flatMap(alert => STATES.map(state => ({ alert, state })))
      .map(labels => ({ labels, value: counts.get(`${labels.alert} ${labels.state}`) ?? 0 }))
      .filter(({ labels, value }) => named.has(labels.alert) || value > 0);
  };
  return {
    account,
    families: [alerts],
    revision: () => JSON.stringify(samples()),
    samples: () => new Map([[alerts.name, samples()]]),
  };
}

export interface NotificationCount {
  readonly notifier: string;
  readonly outcome: string;
  readonly count: number;
}

export type NotificationsCounter = ReturnType<typeof createNotificationsCounter>;

export function createNotificationsCounter(outcomes: readonly string[]) {
  const changes = { count: 0 };
  const kept = createCounter(notifications, [], changes);
  const samplesOf = (notifiers: readonly string[]) =>
    kept.samples().filter(({ labels }) => notifiers.includes(labels.notifier));
  return {
    inc: kept.inc,
    countsOf: (notifiers: readonly string[]): readonly NotificationCount[] =>
      samplesOf(notifiers).map(({ labels, value }) => ({ ...labels, count: value })),
    /** Returns a source for these notifiers. Every outcome starts at 0. */
    sourceOf(notifiers: readonly string[]): Source {
      for (const notifier of notifiers) for (const outcome of outcomes) kept.inc({ notifier, outcome }, 0);
      return {
        families: [notifications],
        revision: () => changes.count,
        samples: () => new Map([[notifications.name, samplesOf(notifiers)]]),
      };
    },
  };
}
