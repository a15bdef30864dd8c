import { type AccountAlerts, openAccountAlerts } from '../alerts/account-alerts.ts';
import { createEvaluation } from '../alerts/evaluation.ts';
import { createHistories, type Histories } from '../alerts/evidence.ts';
import type { Holds } from '../alerts/holds.ts';
import { type AlertRule, isAbout } from '../alerts/options.ts';
import type { Outbox } from '../alerts/outbox.ts';
import type { Silences } from '../alerts/silences.ts';
import { collectorsOf } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import type { Recorder } from '../history/recorder.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Reuse } from '../kit/reuse.ts';
import type { Tracer } from '../kit/tracer.ts';
import { isNotHeld, NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Account } from './account.ts';
import type { Holding } from './holding.ts';
import { createIdentities } from './identity.ts';

export type Evaluate = () => Promise<void>;

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

/** The alerts of an account and what evaluates them. */
export interface Opened {
  readonly alerts: AccountAlerts;
  readonly histories: Histories;
  readonly rules: readonly AlertRule[];
  /** Its rules are evaluated so; undefined: by its account. */
  readonly evaluate: Evaluate | undefined;
}

/** By account. */
export type AllOpened = ReadonlyMap<string, Opened>;

export interface InUse {
  opened: AllOpened;
  accounts: readonly Account[];
  /** Names of all accounts, whichever replica holds them. */
  configured: readonly string[];
}

export const namesOf = ({ accounts }: Config) => accounts.map(({ name }) => name);

/** All that is open here, what is of no account included. */
export const openedNames = ({ accounts, holding }: AlertingDeps) => [
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

/** Ends, step by step, what fires of an account, or a feature, that is no longer configured. */
function leaving(
  name: string,
  { alerts, histories }: Opened,
  { clock, log }: AlertingDeps,
  evaluators: Reuse<Evaluate>,
): Opened {
  const evaluate = evaluators.of(`leaving/${name}`, [alerts], () => {
    const resolve = createEvaluation({ alerts, rules: [], judge: () => [], isDoubtful: () => false, clock, log });
    return async () => {
      if (alerts.current().alerts.size > 0) await resolve();
    };
  });
  return { alerts, histories, rules: [], evaluate };
}

/** Opens the alerts of every account, removed ones with firing alerts included. Rejects with StoreError. */
export async function openAlerts(
  deps: AlertingDeps,
  { outbox, holds, silences }: { readonly outbox: Outbox; readonly holds: Holds; readonly silences: Silences },
  before: AllOpened,
  evaluators: Reuse<Evaluate>,
): Promise<AllOpened> {
  const { config, store, log } = deps;
  const own = config.alerts.enabled ? deps.accounts : [];
  async function open(account: Account): Promise<[string, Opened]> {
    const { name } = account;
    const rules = rulesFor(account, config);
    const { alerts = undefined, histories = createHistories() } = before.get(name) ?? {};
    const opened = alerts ?? (await openAccountAlerts({ account: name, rules, store, outbox, holds, silences, log }));
    return [name, { alerts: opened, histories, rules, evaluate: undefined }];
  }
  const opened = new Map(await Promise.all(own.map(open)));
  const isMoved = movedOf(deps);
  for (const [name, each] of before) {
    const isOver = each.alerts.current().alerts.size === 0;
    if (!opened.has(name) && !isOver && !isMoved(name)) opened.set(name, leaving(name, each, deps, evaluators));
  }
  return opened;
}

/** Applies the rules and silences of this configuration to each account's alerts. */
export function takeAlerts(opened: AllOpened, before: AllOpened, silences: Silences): void {
  const identity = createIdentities();
  for (const [name, { alerts, histories, rules }] of opened) {
    const known = before.get(name)?.rules ?? [];
    const judged = new Set(known.map(identity));
    const unjudged = rules.filter(rule => !judged.has(identity(rule))).map(({ name }) => name);
    alerts.use({ silences, unjudged });
    histories.keep(rules.map(({ when }) => when));
  }
}

/** Lets go of what was in use and has moved to another replica, and ends alerts of what is no longer configured. */
export async function letGoOf(before: InUse, opened: AllOpened, deps: AlertingDeps, outbox: Outbox): Promise<void> {
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
  const failures = (await Promise.allSettled([...moved, ...ended])).flatMap(each =>
    each.status === 'rejected' ? [each.reason] : [],
  );
  const failed = failures.find(error => !isNotHeld(error));
  if (failed !== undefined) deps.log.warn({ error: String(failed) }, 'the latest alert changes could not be stored');
}
