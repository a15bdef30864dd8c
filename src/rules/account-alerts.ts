import type { Log } from '../kit/log.ts';
import type { MayNotify } from '../notify/delivery.ts';
import type { Notice } from '../notify/notice.ts';
import type { Silences } from '../notify/silences.ts';
import { readRow } from '../store/errors.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import { type Alert, type Evaluated, noticesOf, rowOf, ruleNames, sentOf, versionOf, withSilences } from './alert.ts';

/** Alerts of one account from the last evaluation. Changes are stored; `notify` sends the difference to its log. */
export type AccountAlerts = Awaited<ReturnType<typeof openAccountAlerts>>;

export interface AccountAlertsDeps {
  readonly account: string;
  readonly store: Store;
  readonly mayNotify: MayNotify;
  readonly silences: Silences;
  readonly log: Log;
}

const PREFIX = 'alerts/state/';

function logChange(log: Log, account: string, before: Alert | undefined, after: Alert): void {
  const { rule: alert, labels, value, state, silencedBy } = after;
  const fields = { account, alert, labels, value };
  if (state.phase === 'resolved') log.info(fields, 'an alert is resolved');
  else if (before?.state.phase === 'firing') log.warn(fields, 'an alert fires that is no longer silenced');
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
      if (phase !== 'pending' && (isFreed || before?.state.phase !== phase)) logChange(log, account, before, alert);
    }
  }

  /** Adds rows only for changed states, so stored values and annotations may be outdated. */
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
