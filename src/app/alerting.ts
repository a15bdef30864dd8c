import { openAccountAlerts } from '../alerts/account-alerts.ts';
import { createAlerts } from '../alerts/index.ts';
import { timeText } from '../alerts/notice.ts';
import { createAlertmanager } from '../alerts/notifiers/alertmanager.ts';
import { OUTCOMES, type Post, type Receiver, traced } from '../alerts/notifiers/receiver.ts';
import { createWebhook } from '../alerts/notifiers/webhook.ts';
import { type AlertRule, isAbout } from '../alerts/options.ts';
import { createOutbox, type Outbox } from '../alerts/outbox.ts';
import { createRepeating, REPEAT_EVERY } from '../alerts/repeating.ts';
import { collectorsOf } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import type { ShownAlert } from '../http/server.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import { alertsSource, createNotificationsCounter } from '../metrics/alerting.ts';
import type { Source } from '../metrics/family.ts';
import type { Store } from '../store/store.ts';
import type { Account } from './account.ts';
import { tokenSource } from './account-client.ts';
import { createAlertFacts } from './alert-facts.ts';
import { createPost } from './post.ts';

/** The agent's own alerts, and what sends them. */
export interface Alerting {
  readonly outbox: Outbox;
  /** Alerts that are firing or of unknown state in an account, by name. */
  states(account: string): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Bodies of loops that evaluate, one an account, by its sources and `more` of them; none rejects. */
  evaluations(more: readonly Source[]): readonly (() => Promise<void>)[];
  /** Bodies of loops that send; none rejects. */
  readonly senders: readonly ((signal: AbortSignal) => Promise<void>)[];
  readonly sources: readonly Source[];
  alerts(): readonly ShownAlert[];
  /** Commits pending changes, and closes connections. */
  close(): Promise<void>;
}

export interface AlertingDeps {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly accounts: readonly Account[];
  readonly store: Store;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
  readonly tracer: Tracer;
}

function createReceivers({ config, env, clock, tracer }: AlertingDeps, post: Post): Receiver[] {
  const { notifiers, evaluateEvery } = config.alerts;
  const externalUrl = config.server.externalUrl ?? '';
  // As Prometheus does: three times may fail.
  const holdsFor = 4 * Math.max(evaluateEvery, REPEAT_EVERY);
  const receivers = notifiers.flatMap(({ name, alertmanager, webhook }): readonly Receiver[] => {
    const common = { notifier: name, post, now: clock.now, externalUrl };
    if (alertmanager) return createAlertmanager({ ...common, urls: alertmanager.urls, holdsFor });
    if (!webhook) return [];
    const secret = webhook.secret ? tokenSource(webhook.secret, env) : undefined;
    return [createWebhook({ ...common, url: webhook.url, secret })];
  });
  return receivers.map(receiver => traced(receiver, tracer));
}

/** Rules that apply to an account: all others would stay unknown there. */
function rulesFor({ name, state }: Account, { alerts }: Config): readonly AlertRule[] {
  return alerts.rules.filter(
    ({ when }) => isAbout(when, name) && collectorsOf(when).every(collector => state(collector) !== undefined),
  );
}

/** Reads what an earlier process left. Rejects with StoreError. */
export async function openAlerting(deps: AlertingDeps): Promise<Alerting> {
  const { config, accounts, store, clock, random, log, tracer } = deps;
  const { post, close } = createPost();
  const receivers = createReceivers(deps, post);
  const names = config.alerts.notifiers.map(({ name }) => name);
  const counter = createNotificationsCounter(names, OUTCOMES);
  const sending = { notifications: counter.counter, clock, random, log };
  const outbox = createOutbox({ ...sending, store, receivers });
  for (const { name } of accounts) await outbox.open(name);

  async function open(account: Account) {
    const rules = rulesFor(account, config);
    return { account, rules, alerts: await openAccountAlerts({ account: account.name, rules, store, outbox, log }) };
  }

  const opened = config.alerts.enabled ? await Promise.all(accounts.map(open)) : [];
  const byAccount = new Map(opened.map(({ account, alerts }) => [account.name, alerts]));
  const current = () => opened.flatMap(({ alerts }) => [...alerts.current().alerts.values()]);
  const notices = () => opened.flatMap(({ alerts }) => alerts.notices());

  return {
    outbox,
    states: name => byAccount.get(name)?.states() ?? new Map(),
    evaluations: more =>
      opened.map(({ account, rules, alerts }) => {
        const facts = createAlertFacts(account, [...account.sources, ...more]);
        return createAlerts({ alerts, rules, facts, clock, log, tracer });
      }),
    senders: [
      ...outbox.senders,
      ...receivers
        .filter(({ wants }) => wants === 'state')
        .map(receiver => createRepeating({ ...sending, receiver, notices })),
    ],
    sources: [
      ...opened.map(({ account, rules, alerts }) => alertsSource(account.name, rules, alerts.current)),
      ...(names.length > 0 ? [counter.source] : []),
    ],
    alerts: () =>
      current().map(({ labels, annotations, value, state }) => ({
        state: state.phase,
        labels,
        annotations,
        value,
        ...(state.phase === 'pending' ? {} : { startsAt: timeText(state.startsAt) }),
        ...(state.phase === 'resolved' ? { endsAt: timeText(state.endsAt) } : {}),
      })),
    async close() {
      await close();
      const saved = await Promise.allSettled(opened.map(({ alerts }) => alerts.save()));
      const failed = saved.find(each => each.status === 'rejected');
      if (failed) log.warn({ error: String(failed.reason) }, 'the latest alert changes could not be stored');
    },
  };
}
