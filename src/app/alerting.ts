import type { Alert } from '../alerts/alert.ts';
import { createHolds, type Holds, holdsAll } from '../alerts/holds.ts';
import { createAlerts } from '../alerts/index.ts';
import { type Notice, timeText } from '../alerts/notice.ts';
import { OUTCOMES } from '../alerts/notifiers/receiver.ts';
import { HEARTBEAT } from '../alerts/options.ts';
import { createOutbox, type Outbox } from '../alerts/outbox.ts';
import { createRepeating } from '../alerts/repeating.ts';
import { createSilences } from '../alerts/silences.ts';
import type { ShownAlert } from '../http/server.ts';
import { createReuse, type Reuse } from '../kit/reuse.ts';
import {
  alertsSource,
  createNotificationsCounter,
  type NotificationCount,
  type NotificationsCounter,
} from '../metrics/alerting.ts';
import type { Source } from '../metrics/family.ts';
import type { Account } from './account.ts';
import { createAlertFacts } from './alert-facts.ts';
import { createPast } from './alert-windows.ts';
import {
  type AlertingDeps,
  type Evaluate,
  type InUse,
  letGoOf,
  namesOf,
  type Opened,
  openAlerts,
  openedNames,
  takeAlerts,
} from './alerting-accounts.ts';
import { createAgentHeartbeat } from './heartbeat.ts';
import { createIdentities, identityOf } from './identity.ts';
import { type Asking, createPost } from './post.ts';
import { createReceivers, type Receivers } from './receivers.ts';

type Body = (signal: AbortSignal) => Promise<void>;

/** The agent's own alerts, and what sends them, as one configuration asks for them. */
export interface Alerting {
  readonly outbox: Outbox;
  /** Alerts that are firing or of unknown state in an account, by name, also under the next configuration. */
  states(account: string): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Bodies of loops that evaluate, one an account, by its sources and `more` of them; none rejects. */
  evaluations(more: readonly Source[]): readonly Evaluate[];
  /** Bodies of loops that send; none rejects. */
  readonly senders: readonly Body[];
  /** Body of the loop that says that all is well; undefined where that is not configured. It never rejects. */
  readonly heartbeat: Body | undefined;
  readonly sources: readonly Source[];
  /** Notifications since the process began, by the notifiers of this configuration. */
  notifications(): readonly NotificationCount[];
  /** `account`: those of this one alone. */
  alerts(account?: string): readonly ShownAlert[];
  /** Puts it in the place of the one before, all at once. */
  take(): void;
  /**
   * After `take`: lets go of accounts that another replica goes on with, and ends alerts of those that are no longer configured.
   * To be awaited before they are given back. Never rejects.
   */
  letGo(): Promise<void>;
  /** What the next one goes on with. */
  readonly kept: Kept;
  /** Commits pending changes, and closes connections. */
  close(): Promise<void>;
}

/** What outlasts a configuration. */
interface Kept {
  readonly asking: Asking;
  readonly counter: NotificationsCounter;
  readonly outbox: Outbox;
  readonly receivers: Receivers;
  readonly evaluators: Reuse<Evaluate>;
  readonly bodies: Reuse<Body>;
  readonly sources: Reuse<Source>;
  readonly inUse: InUse;
  readonly holds: Holds;
  /** Of `inUse`: all that fires, and what was resolved lately, as far as it is this process's to tell. */
  readonly notices: () => Promise<readonly Notice[]>;
  /** Of `inUse`. */
  readonly accounts: () => readonly Account[];
  readonly configured: () => readonly string[];
}

/** An alert, as JSON. */
function toShown({ labels, annotations, value, state, silencedBy }: Alert): ShownAlert {
  return {
    state: state.phase,
    labels,
    annotations,
    value,
    ...(silencedBy === undefined ? {} : { silencedBy }),
    ...(state.phase === 'pending' ? {} : { startsAt: timeText(state.startsAt) }),
    ...(state.phase === 'resolved' ? { endsAt: timeText(state.endsAt) } : {}),
  };
}

/** What begins: nothing is kept yet. Rejects with StoreError. */
async function openKept(deps: AlertingDeps): Promise<Kept> {
  const { accounts, holding, store, clock, random, log } = deps;
  const inUse: InUse = { opened: new Map(), accounts, configured: namesOf(deps.config) };
  const isConfigured = (name: string) => inUse.configured.includes(name);
  const holds = holding ? createHolds(holding, isConfigured) : holdsAll;
  const asking = createPost();
  const receivers = createReceivers({ ...deps, post: asking.post });
  const counter = createNotificationsCounter(OUTCOMES, clock.now);
  const all = () => [...inUse.opened.values()].flatMap(({ alerts }) => alerts.notices());
  async function notices(): Promise<readonly Notice[]> {
    if (!holding) return all();
    const told: Notice[] = [];
    for (const [name, { alerts }] of inUse.opened) if (await holds.has(name)) told.push(...alerts.notices());
    return told;
  }
  const firing = () => all().filter(({ status }) => status === 'firing');
  const common = { notifications: counter, store, holds, clock, random, log };
  const outbox = createOutbox({ ...common, receivers: allOf(receivers), firing });
  await outbox.open(openedNames(deps));
  const reuse = { evaluators: createReuse<Evaluate>(), bodies: createReuse<Body>(), sources: createReuse<Source>() };
  const now = { accounts: () => inUse.accounts, configured: () => inUse.configured };
  return { asking, counter, outbox, receivers, ...reuse, inUse, holds, notices, ...now };
}

const allOf = ({ made }: Receivers) => [...made.values()].flatMap(({ value }) => value);

/**
 * Reads what an earlier process left. `before`: what is in use until `take`; what has not changed since goes on as it is.
 * Rejects with StoreError, and with an Error where a secret is missing.
 */
export async function openAlerting(deps: AlertingDeps, before?: Alerting): Promise<Alerting> {
  const { config, accounts, clock, random, log, tracer } = deps;
  const kept = before?.kept ?? (await openKept(deps));
  // Not `kept` itself: what is made here would hold on to all generations before.
  const { asking, counter, outbox, inUse, notices, holds } = kept;
  const inUseNow = { accounts: kept.accounts, configured: kept.configured };
  const receivers = createReceivers({ ...deps, post: asking.post }, kept.receivers);
  const all = allOf(receivers);
  const names = accounts.map(({ name }) => name);
  const prepared = await outbox.prepare(openedNames(deps), all);
  const evaluators = createReuse(kept.evaluators);
  const [bodies, sources] = [createReuse(kept.bodies), createReuse(kept.sources)];
  const identity = createIdentities();
  const silences = createSilences(config.alerts.silences, clock.now);
  const opened = await openAlerts(deps, { outbox, holds, silences }, inUse.opened, evaluators);
  const sending = { notifications: counter, clock, random, log };
  const counted = [...config.alerts.notifiers.map(({ name }) => name), ...(config.heartbeat ? [HEARTBEAT] : [])];
  const own = accounts.filter(() => config.alerts.enabled).map(account => ({ account, ...opened.get(account.name) }));

  function evaluationOf(account: Account, { alerts, histories, rules }: Opened, more: readonly Source[]): Evaluate {
    const shown = [...account.sources, ...more.filter(source => source.account === account.name)];
    const recorder = deps.history?.(account.name);
    return evaluators.of(`account/${account.name}`, [alerts, ...rules.map(identity), ...shown], () => {
      const past = recorder && createPast(recorder, clock);
      return createAlerts({
        alerts,
        rules,
        facts: createAlertFacts(account, shown),
        histories,
        past,
        clock,
        log,
        tracer,
      });
    });
  }

  const heartbeat = config.heartbeat
    ? bodies.of('heartbeat', [identityOf(config.heartbeat)], () => {
        const made = createAgentHeartbeat({ ...deps, ...sending, ...inUseNow, get: asking.get });
        return made ?? (async () => undefined);
      })
    : undefined;

  let letting: Promise<void> | undefined;
  const next = { ...kept, receivers, evaluators, bodies, sources };
  const alerting: Alerting = {
    outbox,
    states: name => inUse.opened.get(name)?.alerts.states() ?? new Map(),
    evaluations: more => [
      ...accounts.flatMap(account => {
        const known = opened.get(account.name);
        return known && !known.evaluate ? [evaluationOf(account, known, more)] : [];
      }),
      ...[...opened.values()].flatMap(({ evaluate }) => evaluate ?? []),
    ],
    get senders() {
      const repeating = all.filter(({ wants }) => wants === 'state');
      return [
        ...prepared.senders,
        ...repeating.map(receiver => {
          const key = `repeating/${receiver.notifier}/${receiver.member}`;
          return bodies.of(key, [receiver], () => createRepeating({ ...sending, receiver, notices }));
        }),
      ];
    },
    heartbeat,
    sources: [
      ...own.flatMap(({ account: { name }, alerts, rules = [] }) =>
        alerts
          ? sources.of(`alerts/${name}`, [alerts, ...rules.map(({ name }) => name)], () =>
              alertsSource(name, rules, alerts.current),
            )
          : [],
      ),
      ...(counted.length > 0 ? [sources.of('notifications', counted, () => counter.sourceOf(counted))] : []),
    ],
    notifications: () => counter.countsOf(counted),
    alerts: (account = undefined) =>
      (account === undefined ? names : [account]).flatMap(name =>
        [...(inUse.opened.get(name)?.alerts.current().alerts.values() ?? [])].map(toShown),
      ),
    take() {
      for (const each of [receivers, evaluators, bodies, sources]) each.settle();
      prepared.take();
      takeAlerts(opened, inUse.opened, silences);
      letting = letGoOf({ ...inUse }, opened, deps, outbox);
      Object.assign(inUse, { opened, accounts, configured: namesOf(config) });
    },
    letGo: () => letting ?? Promise.resolve(),
    kept: next,
    async close() {
      await asking.close();
      const saved = await Promise.allSettled([...inUse.opened.values()].map(({ alerts }) => alerts.save()));
      const failed = saved.find(each => each.status === 'rejected');
      if (failed) log.warn({ error: String(failed.reason) }, 'the latest alert changes could not be stored');
    },
  };
  if (!before) alerting.take();
  return alerting;
}
