import type { Log } from '../kit/log.ts';
import type { CheckKind } from '../model/check-kind.ts';
import type { MayNotify } from '../notify/delivery.ts';
import type { Notice } from '../notify/notice.ts';
import type { Silences } from '../notify/silences.ts';
import { readRow } from '../store/errors.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import { type AlertState, withoutClock } from './state.ts';

export interface Alert {
  /** Name of the rule. Several built-in rules may have the same name; their kinds differ. */
  readonly rule: string;
  readonly kind?: CheckKind | undefined;
  /** Identity of the alert, including `alertname` and `account`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly value: number;
  readonly state: AlertState;
  /** Whether the alert is not sent, because the configuration excludes its kind or severity. */
  readonly isUnsent?: boolean | undefined;
  /** Number of series that this alert represents because they exceed `MAX_ALERTS`. */
  readonly omitted?: number | undefined;
  /** Reason for the silence that matches the firing alert. */
  readonly silencedBy?: string | undefined;
}

export interface Evaluated {
  readonly alerts: ReadonlyMap<string, Alert>;
  /** Names and kinds of the rules that have series of unknown state. */
  readonly unknown: ReadonlySet<string>;
}

type RuleIdentity = Pick<Alert, 'kind'> & { readonly name: string };

export const isOfRule = ({ rule, kind }: Alert, { name, kind: own }: RuleIdentity): boolean =>
  rule === name && kind === own;

/** Returns the names by which `states` and `autoCancel.pauseWhileAlerts` refer to a rule. */
export const ruleNames = ({ name, kind }: RuleIdentity): readonly string[] =>
  kind === undefined ? [name] : [name, kind];

function toNotice({ labels, annotations, state, silencedBy }: Alert): readonly Notice[] {
  if (state.phase === 'pending') return [];
  const { startsAt } = state;
  if (state.phase === 'resolved') return [{ status: 'resolved', labels, annotations, startsAt, endsAt: state.endsAt }];
  const firing = { status: 'firing', labels, annotations, startsAt, firedAt: state.firedAt } as const;
  return [silencedBy === undefined ? firing : { ...firing, isSuppressed: true }];
}

export const sentOf = (evaluated: Evaluated): Evaluated => ({
  ...evaluated,
  alerts: new Map([...evaluated.alerts].filter(([, { isUnsent }]) => !isUnsent)),
});

const noticesOf = (evaluated: Evaluated): readonly Notice[] => [...sentOf(evaluated).alerts.values()].flatMap(toNotice);

/** Returns the stored part of an alert. Silences are matched again after a restart. */
const rowOf = ({ silencedBy: _, ...alert }: Alert) => JSON.stringify({ ...alert, state: withoutClock(alert.state) });
/** Returns a text that changes when the alert's row must be written again. */
const versionOf = ({ state, isUnsent }: Alert) => JSON.stringify({ state: withoutClock(state), isUnsent });

/** Marks silenced alerts, which are evaluated and shown, but not sent. */
function withSilences(next: Evaluated, silences: Silences): Evaluated {
  const mark = (alert: Alert): Alert =>
    alert.state.phase === 'firing' ? { ...alert, silencedBy: silences.reasonFor(alert.labels) } : alert;
  return { ...next, alerts: new Map([...next.alerts].map(([key, alert]) => [key, mark(alert)])) };
}

/** Last evaluated alerts of one account. Changes are stored. `notify` sends alerts that differ from its log of sent alerts. */
export type AccountAlerts = Awaited<ReturnType<typeof openAccountAlerts>>;

export interface AccountAlertsDeps {
  readonly account: string;
  readonly store: Store;
  readonly mayNotify: MayNotify;
  readonly silences: Silences;
  readonly log: Log;
}

const PREFIX = 'alerts/state/';

function logChange(log: Log, account: string, { rule: alert, labels, value, state, silencedBy }: Alert): void {
  const fields = { account, alert, labels, value };
  if (state.phase === 'resolved') log.info(fields, 'an alert is resolved');
  else if (silencedBy !== undefined) log.info({ ...fields, reason: silencedBy }, 'a silenced alert fires');
  else log.warn(fields, 'an alert fires');
}

function statesOf({ unknown, alerts }: Evaluated): ReadonlyMap<string, 'firing' | 'unknown'> {
  const firing = [...alerts.values()].filter(({ state }) => state.phase === 'firing');
  return new Map([
    ...[...unknown].map(name => [name, 'unknown'] as const),
    ...firing.flatMap(({ rule, kind }) => ruleNames({ name: rule, kind }).map(name => [name, 'firing'] as const)),
  ]);
}

/** Restores the stored alerts of an account. Rejects with StoreError. */
export async function openAccountAlerts(deps: AccountAlertsDeps) {
  const { account, store, mayNotify, log } = deps;
  let { silences } = deps;
  const opened = new Map<string, Alert>();
  const stored = new Map<string, string>();
  for (const [key, value] of await store.scan(account, PREFIX)) {
    const alert = readRow<Alert>(key, value);
    const silencedBy = alert.state.phase === 'firing' ? silences.reasonFor(alert.labels) : undefined;
    opened.set(key.slice(PREFIX.length), { ...alert, silencedBy });
    stored.set(key.slice(PREFIX.length), versionOf(alert));
  }
  let current: Evaluated = { alerts: opened, unknown: new Set() };
  let notices = noticesOf(current);
  const uncommitted = new Map<string, string | null>();
  let isStoreFailing = false;

  /** Logs alerts that started firing, were resolved or are no longer silenced. */
  function logChanges(next: Evaluated): void {
    for (const [fingerprint, alert] of sentOf(next).alerts) {
      const before = current.alerts.get(fingerprint);
      const { phase } = alert.state;
      const isFreed = phase === 'firing' && before?.silencedBy !== undefined && alert.silencedBy === undefined;
      if (phase !== 'pending' && (isFreed || before?.state.phase !== phase)) logChange(log, account, alert);
    }
  }

  /** Queues the row of an alert only if its state changed, so stored values and annotations may be outdated. */
  function noteChangedStates({ alerts }: Evaluated): void {
    for (const fingerprint of new Set([...stored.keys(), ...alerts.keys()])) {
      const alert = alerts.get(fingerprint);
      const version = alert && versionOf(alert);
      if (version === stored.get(fingerprint)) continue;
      if (version === undefined) stored.delete(fingerprint);
      else stored.set(fingerprint, version);
      uncommitted.set(PREFIX + fingerprint, alert ? rowOf(alert) : null);
    }
  }

  async function save(): Promise<void> {
    const changes = [...uncommitted].map(([key, value]) => ({ key, value }));
    if (changes.length > 0) await store.commit(account, changes);
    uncommitted.clear();
  }

  return {
    account,
    current: (): Evaluated => current,
    /** Returns the state of each rule that is firing or unknown, by its name and by its kind. */
    states: () => statesOf(sentOf(current)),
    /** Returns the notices of firing and recently resolved alerts. */
    notices: (): readonly Notice[] => notices,
    /**
     * Applies the result of an evaluation, unless another process leads. Never rejects: alerts are sent even if the store
     * fails.
     */
    async update(evaluated: Evaluated): Promise<void> {
      // Do not `await` if the lease is valid: a concurrent evaluation of the same state would repeat the log lines.
      const isAllowed = mayNotify();
      if (isAllowed !== true && !(await isAllowed)) return;
      const next = withSilences(evaluated, silences);
      logChanges(next);
      current = next;
      notices = noticesOf(next);
      noteChangedStates(next);
      try {
        await save();
        isStoreFailing = false;
      } catch (error) {
        if (isNotHeld(error)) return;
        if (!isStoreFailing)
          log.error({ account, error: String(error) }, 'alerts are evaluated and sent, but not stored');
        isStoreFailing = true;
      }
    },
    save,
    use(next: Silences): void {
      silences = next;
    },
    /** Marks new or changed rules as unknown until the next evaluation. */
    setUnknown(changed: readonly string[]): void {
      current = { ...current, unknown: new Set([...current.unknown, ...changed]) };
    },
  };
}
