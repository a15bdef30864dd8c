import type { Log } from '../kit/log.ts';
import type { Store } from '../store/store.ts';
import type { Notice } from './notice.ts';
import type { Outbox, Posting } from './outbox.ts';
import { type AlertState, withoutClock } from './state.ts';

/** One alert of an account that is not inactive. */
export interface Alert {
  readonly rule: string;
  /** Its identity, `alertname` and `account` included. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** By which it was last judged true. */
  readonly value: number;
  readonly state: AlertState;
}

/** What one evaluation of all rules came to. */
export interface Evaluated {
  /** By fingerprint. */
  readonly alerts: ReadonlyMap<string, Alert>;
  /** Rules with series that could not be judged. */
  readonly unknown: ReadonlySet<string>;
  /** By rule: number of series beyond the cap: their condition holds, but they have no alert of their own. */
  readonly beyondCap: ReadonlyMap<string, number>;
}

/** The alerts of one account, as the last evaluation left them: in the store, and sent when they change. */
export interface AccountAlerts {
  readonly account: string;
  current(): Evaluated;
  /** Rules with an alert that is firing or of unknown state: all before the first evaluation. */
  states(): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Of what fires, and of what was resolved lately. */
  notices(): readonly Notice[];
  /** Takes what is true now, and queues what changed for sending. Never rejects: that is sent although the store does not take it. */
  update(next: Evaluated): Promise<void>;
  /** Commits what the store did not take yet. Rejects with StoreError. */
  save(): Promise<void>;
}

export interface AccountAlertsDeps {
  readonly account: string;
  readonly rules: readonly { readonly name: string }[];
  readonly store: Store;
  readonly outbox: Outbox;
  readonly log: Log;
}

const PREFIX = 'alerts/state/';

function toNotice({ labels, annotations, state }: Alert): Notice | undefined {
  if (state.phase === 'pending') return undefined;
  const { startsAt } = state;
  if (state.phase === 'firing') return { status: 'firing', labels, annotations, startsAt };
  return { status: 'resolved', labels, annotations, startsAt, endsAt: state.endsAt };
}

/** Reads the alerts that an earlier process left. Rejects with StoreError. */
export async function openAccountAlerts(deps: AccountAlertsDeps): Promise<AccountAlerts> {
  const { account, rules, store, outbox, log } = deps;
  const opened = new Map<string, Alert>();
  /** States as they are in the store, or wait for it. */
  const stored = new Map<string, string>();
  for (const [key, value] of await store.scan(account, PREFIX)) {
    const alert = JSON.parse(value) as Alert;
    opened.set(key.slice(PREFIX.length), alert);
    stored.set(key.slice(PREFIX.length), JSON.stringify(alert.state));
  }
  let current: Evaluated = { alerts: opened, unknown: new Set(rules.map(({ name }) => name)), beyondCap: new Map() };
  const uncommitted = new Map<string, string | null>();
  let postings: Posting[] = [];
  let isStoreFailing = false;

  /** What begins to fire and what is resolved by `after`. */
  function changesTo(after: ReadonlyMap<string, Alert>): Notice[] {
    return [...after].flatMap(([fingerprint, alert]) => {
      const notice = toNotice(alert);
      if (!notice || current.alerts.get(fingerprint)?.state.phase === alert.state.phase) return [];
      const fields = { account, alert: alert.rule, labels: alert.labels, value: alert.value };
      if (notice.status === 'firing') log.warn(fields, 'an alert fires');
      else log.info(fields, 'an alert is resolved');
      return [notice];
    });
  }

  /** A row is written when its state changes: value and texts in it may be older than those that are shown. */
  function noteChangedStates({ alerts }: Evaluated): void {
    for (const fingerprint of new Set([...stored.keys(), ...alerts.keys()])) {
      const alert = alerts.get(fingerprint);
      const state = alert && withoutClock(alert.state);
      const text = JSON.stringify(state);
      if (text === stored.get(fingerprint)) continue;
      if (alert) stored.set(fingerprint, text);
      else stored.delete(fingerprint);
      uncommitted.set(PREFIX + fingerprint, alert ? JSON.stringify({ ...alert, state }) : null);
    }
  }

  async function save(): Promise<void> {
    const rows = [...uncommitted].map(([key, value]) => ({ key, value }));
    const changes = [...rows, ...postings.flatMap(posting => posting.changes())];
    if (changes.length > 0) await store.commit(account, changes);
    uncommitted.clear();
    postings = [];
  }

  return {
    account,
    current: () => current,
    states: () =>
      new Map<string, 'firing' | 'unknown'>([
        ...[...current.unknown].map(rule => [rule, 'unknown'] as const),
        ...[...current.alerts.values()].flatMap(({ rule, state }) =>
          state.phase === 'firing' ? [[rule, 'firing'] as const] : [],
        ),
      ]),
    notices: () => [...current.alerts.values()].flatMap(alert => toNotice(alert) ?? []),
    async update(next) {
      const posting = outbox.post(account, changesTo(next.alerts), ({ wants }) => wants === 'changes');
      current = next;
      noteChangedStates(next);
      if (posting.changes().length > 0) postings.push(posting);
      try {
        await save();
        isStoreFailing = false;
      } catch (error) {
        if (!isStoreFailing)
          log.error({ account, error: String(error) }, 'alerts are evaluated and sent, but not stored');
        isStoreFailing = true;
        // What was sent meanwhile needs no row any more.
        postings = postings.filter(each => each.changes().length > 0);
      }
      posting.send();
    },
    save,
  };
}
