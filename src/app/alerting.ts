import { type AccountAlerts, openAccountAlerts } from '../alerts/account-alerts.ts';
import type { Alert } from '../alerts/alert.ts';
import { createEvaluation } from '../alerts/evaluation.ts';
import { createHistories, type Histories } from '../alerts/evidence.ts';
import { createHolds, type Holds, holdsAll } from '../alerts/holds.ts';
import { createAlerts } from '../alerts/index.ts';
import { type Notice, timeText } from '../alerts/notice.ts';
import { OUTCOMES } from '../alerts/notifiers/receiver.ts';
import { type AlertRule, HEARTBEAT, isAbout } from '../alerts/options.ts';
import { createOutbox, type Outbox } from '../alerts/outbox.ts';
import { openOverflow } from '../alerts/overflow.ts';
import { createRepeating } from '../alerts/repeating.ts';
import { createSendLimits } from '../alerts/send-limits.ts';
import type { SendingDeps } from '../alerts/sending.ts';
import { createSilences } from '../alerts/silences.ts';
import { collectorsOf } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import type { Recorder } from '../history/recorder.ts';
import type { ShownAlert } from '../http/server.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { createReuse, type Reuse } from '../kit/reuse.ts';
import type { Tracer } from '../kit/tracer.ts';
import { alertsSource, createNotificationsCounter, type NotificationsCounter } from '../metrics/alerting.ts';
import type { Source } from '../metrics/family.ts';
import { isNotHeld, NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Account } from './account.ts';
import { createAlertFacts } from './alert-facts.ts';
import { createPast } from './alert-windows.ts';
import { byName } from './changes.ts';
import { createAgentHeartbeat } from './heartbeat.ts';
import type { Holding } from './holding.ts';
import { identityOf } from './identity.ts';
import { type Asking, createPost } from './post.ts';
import { createReceivers, type Receivers } from './receivers.ts';

type Body = (signal: AbortSignal) => Promise<void>;
type Evaluate = () => Promise<void>;

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
  alerts(): readonly ShownAlert[];
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

export interface AlertingDeps {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Those that are open: with replicas, of the configured ones those that this one holds. */
  readonly accounts: readonly Account[];
  /** What was recorded of an account: windows are filled from it. Without it they begin with the process. */
  readonly history?: (account: string) => Recorder | undefined;
  readonly store: Store;
  /** Where replicas share the store. */
  readonly holding?: Pick<Holding, 'held' | 'remaining' | 'confirm' | 'sharing'> | undefined;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
  readonly tracer: Tracer;
}

/** The alerts of an account, or of none, with what judges them. */
interface Opened {
  readonly alerts: AccountAlerts;
  readonly histories: Histories;
  readonly rules: readonly AlertRule[];
  readonly sending: SendingDeps;
  /** Its rules are evaluated so; undefined: by its account. */
  readonly evaluate: Evaluate | undefined;
}

/** By account; `NO_ACCOUNT` has those of what is left out. */
type AllOpened = ReadonlyMap<string, Opened>;

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

interface InUse {
  opened: AllOpened;
  accounts: readonly Account[];
  /** Names of all accounts, whichever replica holds them. */
  configured: readonly string[];
}

const namesOf = ({ accounts }: Config) => accounts.map(({ name }) => name);

/** All that is open here, what is of no account included. */
const openedNames = ({ accounts, holding }: AlertingDeps) => [
  ...(holding?.held(NO_ACCOUNT) === false ? [] : [NO_ACCOUNT]),
  ...accounts.map(({ name }) => name),
];

/** Whether another replica goes on with an account that is not open here; `NO_ACCOUNT` is one more. */
function movedOf({ config, accounts, holding }: AlertingDeps): (name: string) => boolean {
  if (!holding) return () => false;
  const moved = new Set(namesOf(config));
  for (const { name } of accounts) moved.delete(name);
  return name => (name === NO_ACCOUNT ? !holding.held(name) : moved.has(name));
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

/** What begins: nothing is kept yet. Rejects with StoreError. */
async function openKept(deps: AlertingDeps): Promise<Kept> {
  const { accounts, holding, store, clock, random, log } = deps;
  const inUse: InUse = { opened: new Map(), accounts, configured: namesOf(deps.config) };
  const isConfigured = (name: string) => inUse.configured.includes(name);
  const holds = holding ? createHolds(holding, isConfigured) : holdsAll;
  const asking = createPost();
  const receivers = createReceivers({ ...deps, post: asking.post });
  const counter = createNotificationsCounter(OUTCOMES);
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

/** Ends, step by step, what fires of an account, or a feature, that is no longer configured. */
function leaving(
  name: string,
  { alerts, histories }: Opened,
  sending: SendingDeps,
  { clock, log }: AlertingDeps,
  evaluators: Reuse<Evaluate>,
): Opened {
  const evaluate = evaluators.of(`leaving/${name}`, [alerts], () => {
    const resolve = createEvaluation({ alerts, rules: [], judge: () => [], isDoubtful: () => false, clock, log });
    return async () => {
      if (alerts.current().alerts.size > 0) await resolve();
    };
  });
  return { alerts, histories, sending, rules: [], evaluate };
}

/** Alerts of every account, of what is left out of them, and of those that leave. Rejects with StoreError. */
async function openAlerts(
  deps: AlertingDeps,
  { outbox, holds }: Pick<Kept, 'outbox' | 'holds'>,
  before: AllOpened,
  evaluators: Reuse<Evaluate>,
): Promise<AllOpened> {
  const { config, store, clock, log } = deps;
  const { rules, enabled } = config.alerts;
  const own = enabled ? deps.accounts : [];
  const silences = createSilences(config.alerts.silences, clock.now);
  const names = own.map(({ name }) => name);
  const limits = createSendLimits(new Map(rules.map(({ name, limit }) => [name, limit])), names);
  const sending = { silences, limits };
  async function open(account: Account): Promise<[string, Opened]> {
    const { name } = account;
    const rules = rulesFor(account, config);
    const { alerts = undefined, histories = createHistories() } = before.get(name) ?? {};
    const opened = alerts ?? (await openAccountAlerts({ account: name, rules, store, outbox, holds, ...sending, log }));
    return [name, { alerts: opened, histories, rules, sending, evaluate: undefined }];
  }
  const opened = new Map(await Promise.all(own.map(open)));
  const isMoved = movedOf(deps);
  if (enabled && !isMoved(NO_ACCOUNT)) {
    const known = before.get(NO_ACCOUNT);
    const common = { rules, limits, store, outbox, holds, silences, clock, log };
    const overflow = await openOverflow({ ...common, before: known?.alerts });
    const parts = [overflow.alerts, silences, limits];
    opened.set(NO_ACCOUNT, {
      alerts: overflow.alerts,
      histories: createHistories(),
      rules,
      sending: { silences, limits: overflow.limits },
      evaluate: evaluators.of('overflow', parts, () => overflow.evaluate),
    });
  }
  for (const [name, each] of before) {
    const isOver = each.alerts.current().alerts.size === 0;
    if (!opened.has(name) && !isOver && !isMoved(name))
      opened.set(name, leaving(name, each, sending, deps, evaluators));
  }
  return opened;
}

/** Lets each account's alerts go on under the rules, silences and limits of this configuration. */
function takeAlerts(opened: AllOpened, before: AllOpened): void {
  for (const [name, { alerts, histories, rules, sending }] of opened) {
    const known = byName(before.get(name)?.rules ?? []);
    const unjudged = rules.filter(rule => known.get(rule.name) !== identityOf(rule)).map(({ name }) => name);
    alerts.use({ ...sending, unjudged });
    histories.keep(rules.map(({ when }) => when));
  }
}

/** Lets go of what was in use and has moved to another replica, and ends alerts of what is no longer configured. */
async function letGoOf(before: InUse, opened: AllOpened, deps: AlertingDeps, outbox: Outbox): Promise<void> {
  if (!deps.holding) return;
  const were = new Set([...before.opened.keys(), ...before.accounts.map(({ name }) => name), NO_ACCOUNT]);
  async function letGo(name: string): Promise<void> {
    await outbox.letGo(name);
    await before.opened.get(name)?.alerts.save();
  }
  const moved = [...were].filter(movedOf(deps)).map(letGo);
  // Of these no other replica tells the end.
  const configured = new Set([NO_ACCOUNT, ...namesOf(deps.config)]);
  const gone = [...were].filter(name => !configured.has(name));
  const ended = gone.map(name => opened.get(name)?.evaluate?.());
  const failed = (await Promise.allSettled([...moved, ...ended])).find(each => each.status === 'rejected');
  if (failed && !isNotHeld(failed.reason)) {
    deps.log.warn({ error: String(failed.reason) }, 'the latest alert changes could not be stored');
  }
}

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
  const opened = await openAlerts(deps, { outbox, holds }, inUse.opened, evaluators);
  const sending = { notifications: counter, clock, random, log };
  const counted = [...config.alerts.notifiers.map(({ name }) => name), ...(config.heartbeat ? [HEARTBEAT] : [])];
  const own = accounts.filter(() => config.alerts.enabled).map(account => ({ account, ...opened.get(account.name) }));

  function evaluationOf(account: Account, { alerts, histories, rules }: Opened, more: readonly Source[]): Evaluate {
    const shown = [...account.sources, ...more.filter(source => source.account === account.name)];
    const recorder = deps.history?.(account.name);
    return evaluators.of(`account/${account.name}`, [alerts, identityOf(rules), ...shown], () => {
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
    alerts: () =>
      ['', ...names].flatMap(name =>
        [...(inUse.opened.get(name)?.alerts.current().alerts.values() ?? [])].map(toShown),
      ),
    take() {
      for (const each of [receivers, evaluators, bodies, sources]) each.settle();
      prepared.take();
      takeAlerts(opened, inUse.opened);
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
