import { openAccountAlerts } from '../alerts/account-alerts.ts';
import type { Alert } from '../alerts/alert.ts';
import { createAlerts } from '../alerts/index.ts';
import { type Notice, timeText } from '../alerts/notice.ts';
import { createAlertmanager } from '../alerts/notifiers/alertmanager.ts';
import { OUTCOMES, type Post, type Receiver, traced } from '../alerts/notifiers/receiver.ts';
import { createWebhook } from '../alerts/notifiers/webhook.ts';
import { type AlertRule, HEARTBEAT, isAbout } from '../alerts/options.ts';
import { createOutbox, type Outbox } from '../alerts/outbox.ts';
import { openOverflow } from '../alerts/overflow.ts';
import { createRepeating, REPEAT_EVERY } from '../alerts/repeating.ts';
import { createSendLimits } from '../alerts/send-limits.ts';
import { createSilences } from '../alerts/silences.ts';
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
import { createAgentHeartbeat } from './heartbeat.ts';
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
  /** Body of the loop that says that all is well; undefined where that is not configured. It never rejects. */
  readonly heartbeat: ((signal: AbortSignal) => Promise<void>) | undefined;
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
    const { format, groupBy: by, groupWait: wait, repeatEvery } = webhook;
    const secret = webhook.secret ? tokenSource(webhook.secret, env) : undefined;
    const grouping = { by, wait, repeatEvery };
    return [createWebhook({ ...common, format, url: tokenSource(webhook.url, env), secret, grouping })];
  });
  return receivers.map(receiver => traced(receiver, tracer));
}

/** Rules that apply to an account: all others would stay unknown there. */
function rulesFor({ name, state }: Account, { alerts }: Config): readonly AlertRule[] {
  return alerts.rules.filter(
    ({ when }) => isAbout(when, name) && collectorsOf(when).every(collector => state(collector) !== undefined),
  );
}

/** An alert, as JSON. */
function toShown({ labels, annotations, value, state, isHeldBack, silencedBy }: Alert): ShownAlert {
  return {
    state: state.phase,
    labels,
    annotations,
    value,
    ...(silencedBy === undefined ? {} : { silencedBy }),
    ...(isHeldBack && state.phase === 'firing' ? { sent: false } : {}),
    ...(state.phase === 'pending' ? {} : { startsAt: timeText(state.startsAt) }),
    ...(state.phase === 'resolved' ? { endsAt: timeText(state.endsAt) } : {}),
  };
}

/** Alerts of every account, and of what is left out of them. Rejects with StoreError. */
async function openAlerts({ config, accounts, store, clock, log }: AlertingDeps, outbox: Outbox) {
  const { rules, enabled } = config.alerts;
  const own = enabled ? accounts : [];
  const silences = createSilences(config.alerts.silences, clock.now);
  const limits = createSendLimits(
    new Map(rules.map(({ name, limit }) => [name, limit])),
    own.map(({ name }) => name),
  );
  async function open(account: Account) {
    const rules = rulesFor(account, config);
    const deps = { account: account.name, rules, store, outbox, silences, limits, log };
    return { account, rules, alerts: await openAccountAlerts(deps) };
  }
  const opened = await Promise.all(own.map(open));
  const overflow = enabled ? await openOverflow({ rules, limits, store, outbox, silences, clock, log }) : undefined;
  return { opened, overflow };
}

/** Reads what an earlier process left. Rejects with StoreError. */
export async function openAlerting(deps: AlertingDeps): Promise<Alerting> {
  const { config, accounts, store, clock, random, log, tracer } = deps;
  const { post, get, close } = createPost();
  const receivers = createReceivers(deps, post);
  const counted = [...config.alerts.notifiers.map(({ name }) => name), ...(config.heartbeat ? [HEARTBEAT] : [])];
  const counter = createNotificationsCounter(counted, OUTCOMES);
  const sending = { notifications: counter.counter, clock, random, log };
  let notices: () => readonly Notice[] = () => [];
  const firing = () => notices().filter(({ status }) => status === 'firing');
  const outbox = createOutbox({ ...sending, store, receivers, firing });
  await outbox.open(accounts.map(({ name }) => name));
  const { opened, overflow } = await openAlerts(deps, outbox);
  const all = [...opened.map(({ alerts }) => alerts), ...(overflow ? [overflow.alerts] : [])];
  notices = () => all.flatMap(alerts => alerts.notices());
  const byAccount = new Map(opened.map(({ account, alerts }) => [account.name, alerts]));

  return {
    outbox,
    states: name => byAccount.get(name)?.states() ?? new Map(),
    evaluations: more => [
      ...opened.map(({ account, rules, alerts }) => {
        const facts = createAlertFacts(account, [...account.sources, ...more]);
        return createAlerts({ alerts, rules, facts, clock, log, tracer });
      }),
      ...(overflow ? [overflow.evaluate] : []),
    ],
    senders: [
      ...outbox.senders,
      ...receivers
        .filter(({ wants }) => wants === 'state')
        .map(receiver => createRepeating({ ...sending, receiver, notices: () => notices() })),
    ],
    heartbeat: createAgentHeartbeat({ ...deps, ...sending, get: (url, signal) => get(url, signal) }),
    sources: [
      ...opened.map(({ account, rules, alerts }) => alertsSource(account.name, rules, alerts.current)),
      ...(counted.length > 0 ? [counter.source] : []),
    ],
    alerts: () => all.flatMap(alerts => [...alerts.current().alerts.values()].map(toShown)),
    async close() {
      await close();
      const saved = await Promise.allSettled(all.map(alerts => alerts.save()));
      const failed = saved.find(each => each.status === 'rejected');
      if (failed) log.warn({ error: String(failed.reason) }, 'the latest alert changes could not be stored');
    },
  };
}
