import { noticeOf } from '../alerts/auto-cancel-notice.ts';
import { judgeAlert, selectorsOf } from '../alerts/judge.ts';
import { timeText } from '../alerts/notice.ts';
import { createAlertmanager } from '../alerts/notifiers/alertmanager.ts';
import { OUTCOMES, type Post, type Receiver } from '../alerts/notifiers/index.ts';
import { createWebhook } from '../alerts/notifiers/webhook.ts';
import { openOutbox } from '../alerts/outbox.ts';
import { type Alert, type AlertPipeline, openAlertPipeline } from '../alerts/pipeline.ts';
import { createRepeating, REPEAT_EVERY } from '../alerts/repeating.ts';
import type { Journal } from '../auto-cancel/journal.ts';
import { type AlertRule, alertFamilies } from '../config/alerts.ts';
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
import { createEvidence } from './alert-evidence.ts';
import { createPost } from './post.ts';

/** The agent's own alerts, and whoever is told of them. */
export interface Alerting {
  readonly sources: readonly Source[];
  /** Bodies of loops, one an account; none throws. */
  readonly evaluations: readonly (() => Promise<void>)[];
  /** Bodies of loops that tell; none throws. */
  readonly tellers: readonly ((signal: AbortSignal) => Promise<void>)[];
  /** Alerts that fire in an account, and those of which it is not known, by name. */
  braking(account: string): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** The same journal; what its lines tell the owners of their rules is put into the outbox together with them. */
  telling(account: string, journal: Journal): Journal;
  alerts(): readonly ShownAlert[];
  /** Commits what is not yet, and closes connections. */
  close(): Promise<void>;
}

export interface AlertingDeps {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly accounts: readonly Account[];
  /** What is said of accounts beside their own sources. */
  readonly moreSources: () => readonly Source[];
  readonly store: Store;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
  readonly tracer: Tracer;
}

/** Every telling is a span, without the address: it may hold what lets one in. */
function traced(receiver: Receiver, tracer: Tracer): Receiver {
  const { notifier, member } = receiver;
  return {
    ...receiver,
    tell: (notices, signal) =>
      tracer.span(
        'notify',
        { notifier, member, alerts: notices.length },
        async span => {
          const told = await receiver.tell(notices, signal);
          span.set({ outcome: told.kind });
          if (told.kind !== 'accepted') span.fail(told.kind);
          return told;
        },
        'client',
      ),
  };
}

function createReceivers({ config, env, clock }: AlertingDeps, post: Post): Receiver[] {
  const { notifiers, evaluateEvery } = config.alerts;
  const externalUrl = config.server.externalUrl ?? '';
  return notifiers.flatMap(({ name, alertmanager, webhook }): readonly Receiver[] => {
    const common = { notifier: name, post, now: clock.now };
    if (alertmanager) {
      // As Prometheus does: three times may fail.
      const holdsFor = 4 * Math.max(evaluateEvery, REPEAT_EVERY);
      return createAlertmanager({ ...common, urls: alertmanager.urls, holdsFor, generatorUrl: externalUrl });
    }
    if (!webhook) return [];
    const secret = webhook.secret ? tokenSource(webhook.secret, env) : undefined;
    return [createWebhook({ ...common, url: webhook.url, secret, externalUrl })];
  });
}

/** Rules that can say something of an account: the others would for ever be unknown there. */
function rulesOf({ alerts }: Config, { name, state }: Account): readonly AlertRule[] {
  if (!alerts.enabled) return [];
  return alerts.rules.filter(({ when }) =>
    selectorsOf(when).every(({ metric, labels }) => {
      const collector = when.kind === 'stale' ? when.collector : alertFamilies.get(metric)?.collector;
      return (labels.account?.includes(name) ?? true) && (collector === undefined || state(collector) !== undefined);
    }),
  );
}

function toShown({ labels, annotations, value, state }: Alert): ShownAlert {
  return {
    state: state.phase,
    labels,
    annotations,
    value,
    ...(state.phase === 'pending' ? {} : { startsAt: timeText(state.startsAt) }),
    ...(state.phase === 'resolved' ? { endsAt: timeText(state.endsAt) } : {}),
  };
}

/** Takes up what an earlier process left. Rejects with StoreError. */
export async function createAlerting(deps: AlertingDeps): Promise<Alerting> {
  const { config, accounts, moreSources, store, clock, random, log, tracer } = deps;
  const { post, close } = createPost();
  const receivers = createReceivers(deps, post).map(receiver => traced(receiver, tracer));
  const names = config.alerts.notifiers.map(({ name }) => name);
  const notifications = createNotificationsCounter(names, OUTCOMES);
  const telling = { notifications: notifications.counter, clock, random, log };
  const outbox = await openOutbox({ ...telling, store, accounts: accounts.map(({ name }) => name), receivers });

  async function openAccount(account: Account) {
    const { name } = account;
    const rules = rulesOf(config, account);
    const conditions = new Map(rules.map(rule => [rule.name, rule.when]));
    const evidence = createEvidence({
      config,
      account,
      sources: () => [...account.sources, ...moreSources()],
      conditions: [...conditions.values()],
      clock,
    });
    const pipeline = await openAlertPipeline({
      account: name,
      rules,
      judge(rule) {
        const condition = conditions.get(rule);
        return condition ? judgeAlert(condition, evidence) : 'unknown';
      },
      isDoubtful(rule, labels) {
        const condition = conditions.get(rule);
        return condition !== undefined && selectorsOf(condition).some(each => evidence.isDoubtful(each, labels));
      },
      store,
      outbox,
      clock,
      log,
    });
    const present = () => pipeline.alerts().map(({ rule, state: { phase } }) => ({ rule, phase }));
    return {
      name,
      pipeline,
      source: alertsSource(
        name,
        rules.map(rule => rule.name),
        present,
        pipeline.beyondCap,
      ),
      async evaluate() {
        try {
          evidence.record();
          await pipeline.run();
        } catch (error) {
          log.error({ account: name, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
        }
      },
    };
  }

  const parts = config.alerts.enabled ? await Promise.all(accounts.map(openAccount)) : [];
  const pipelines = new Map<string, AlertPipeline>(parts.map(({ name, pipeline }) => [name, pipeline]));
  const owners = new Map(config.autoCancel.rules.map(({ name, notify }) => [name, notify]));
  const allNotices = () => parts.flatMap(({ pipeline }) => pipeline.notices());

  return {
    sources: [...parts.map(({ source }) => source), ...(names.length > 0 ? [notifications.source] : [])],
    evaluations: parts.map(
      ({ name, evaluate }) =>
        () =>
          tracer.span('evaluate alerts', { account: name }, evaluate),
    ),
    tellers: [
      ...outbox.lanes,
      ...receivers
        .filter(({ wants }) => wants === 'state')
        .map(receiver => createRepeating({ ...telling, receiver, notices: allNotices })),
    ],
    braking: account => pipelines.get(account)?.braking() ?? new Map(),
    telling: (account, journal) => ({
      state: journal.state,
      async append(entries, changes = []) {
        const postings = entries.flatMap(entry => {
          const told = noticeOf(entry);
          const toldTo = told ? (owners.get(told.rule) ?? []) : [];
          return told ? [outbox.post(account, [told.notice], ({ notifier }) => toldTo.includes(notifier))] : [];
        });
        await journal.append(entries, [...changes, ...postings.flatMap(posting => posting.changes())]);
        for (const posting of postings) posting.send();
      },
    }),
    alerts: () => parts.flatMap(({ pipeline }) => pipeline.alerts().map(toShown)),
    async close() {
      await close();
      const saved = await Promise.allSettled(parts.map(({ pipeline }) => pipeline.save()));
      const failed = saved.find(each => each.status === 'rejected');
      if (failed) log.warn({ error: String(failed.reason) }, 'the last changes of alerts are not stored');
    },
  };
}
