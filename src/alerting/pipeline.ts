import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Store } from '../store/store.ts';
import { type AlertState, advance, withoutClock } from './alert-state.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import { type AlertingRule, expand } from './options.ts';
import type { Outbox, Posting } from './outbox.ts';

type Labels = Readonly<Record<string, string>>;

type Holding = { readonly labels: Labels; readonly value: number };

/**
 * What a rule says of an account: not known, or the series of which its condition holds, with their values. With `atLeast`,
 * nothing is known of the others.
 */
export type Judgement = 'unknown' | readonly Holding[] | { readonly atLeast: readonly Holding[] };

/** What a judgement lists, and whether it holds of what it does not list. */
function read(judged: Judgement): { readonly listed: readonly Holding[]; readonly others: false | 'unknown' } {
  if (judged === 'unknown') return { listed: [], others: 'unknown' };
  return 'atLeast' in judged ? { listed: judged.atLeast, others: 'unknown' } : { listed: judged, others: false };
}

/** One alert of an account that is not inactive. */
export interface Alert {
  readonly rule: string;
  /** Its identity, `alertname` and `account` included. */
  readonly labels: Labels;
  readonly annotations: Labels;
  /** By which it was last judged true. */
  readonly value: number;
  readonly state: AlertState;
}

export interface AlertPipelineDeps {
  readonly account: string;
  readonly rules: readonly AlertingRule[];
  /** What a rule's condition says now. */
  judge(rule: string): Judgement;
  readonly store: Store;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly log: Log;
}

/** The alerts of one account: judged, kept across restarts, told. */
export interface AlertPipeline {
  /** Judges every rule and takes the alerts on. Never throws: alerts are told although the store does not take them. */
  run(): Promise<void>;
  /** Commits what the store did not take yet. Rejects with StoreError. */
  save(): Promise<void>;
  alerts(): readonly Alert[];
  /** Of what fires, and of what was resolved lately. */
  notices(): readonly Notice[];
}

const PREFIX = 'alerts/state/';

/** A rule that is gone: what it said is no longer true. */
const NO_RULE = { for: 0, keepFiringFor: 0 };

function toNotice({ labels, annotations, state }: Alert): Notice | undefined {
  if (state.phase === 'pending') return undefined;
  const { startsAt } = state;
  if (state.phase === 'firing') return { status: 'firing', labels, annotations, startsAt };
  return { status: 'resolved', labels, annotations, startsAt, endsAt: state.endsAt };
}

/** Alertmanager takes empty labels away, and with them they would be another alert. */
const withoutEmpty = (labels: Labels) => Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== ''));

/** Takes up the alerts that an earlier process left. Rejects with StoreError. */
export async function openAlertPipeline(deps: AlertPipelineDeps): Promise<AlertPipeline> {
  const { account, rules, judge, store, outbox, clock, log } = deps;
  let alerts = new Map<string, Alert>();
  /** States as they are in the store, or wait for it. */
  const noted = new Map<string, string>();
  const waiting = new Map<string, string | null>();
  let postings: Posting[] = [];
  let isStoreFailing = false;
  for (const [key, value] of await store.scan(account, PREFIX)) {
    const alert = JSON.parse(value) as Alert;
    alerts.set(key.slice(PREFIX.length), alert);
    noted.set(key.slice(PREFIX.length), JSON.stringify(alert.state));
  }

  function judgeSafely(rule: string): Judgement {
    try {
      return judge(rule);
    } catch (error) {
      log.error({ account, alert: rule, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      return 'unknown';
    }
  }

  /** What a rule's alerts are after this evaluation. */
  function evaluate({ name, labels: more, annotations, ...patience }: AlertingRule): [string, Alert][] {
    const { listed, others } = read(judgeSafely(name));
    const moment = { now: clock.now(), monotonic: clock.monotonic() };
    const holding = new Map<string, Omit<Alert, 'state'>>();
    for (const { labels: own, value } of listed) {
      const labels = withoutEmpty({ ...own, ...more, alertname: name, account });
      const texts = Object.entries(annotations).map(([key, text]) => [key, expand(text, labels, value)] as const);
      holding.set(fingerprintOf(labels), { rule: name, labels, annotations: Object.fromEntries(texts), value });
    }
    const known = [...alerts].filter(([, { rule }]) => rule === name);
    return [...new Map([...known, ...holding])].flatMap(([fingerprint, alert]): [string, Alert][] => {
      const holds = holding.has(fingerprint) || others;
      const state = advance(alerts.get(fingerprint)?.state, patience, { holds, ...moment });
      return state ? [[fingerprint, { ...alert, state }]] : [];
    });
  }

  /** Alerts of rules that are no longer configured. */
  function wither(): [string, Alert][] {
    const names = new Set(rules.map(({ name }) => name));
    const moment = { holds: false, now: clock.now(), monotonic: clock.monotonic() };
    return [...alerts].flatMap(([fingerprint, alert]): [string, Alert][] => {
      if (names.has(alert.rule)) return [];
      const state = advance(alert.state, NO_RULE, moment);
      return state ? [[fingerprint, { ...alert, state }]] : [];
    });
  }

  /** News since the last evaluation, for those who are told of changes. */
  function newsOf(before: ReadonlyMap<string, Alert>, after: ReadonlyMap<string, Alert>): Notice[] {
    return [...after].flatMap(([fingerprint, alert]) => {
      const notice = toNotice(alert);
      const past = before.get(fingerprint)?.state;
      if (!notice || past?.phase === alert.state.phase) return [];
      const fields = { account, alert: alert.rule, labels: alert.labels, value: alert.value };
      if (notice.status === 'firing') log.warn(fields, 'an alert fires');
      else log.info(fields, 'an alert is resolved');
      return [notice];
    });
  }

  /** A row is written when its state changes: value and texts in it may be older than those that are shown. */
  function note(): void {
    for (const fingerprint of new Set([...noted.keys(), ...alerts.keys()])) {
      const alert = alerts.get(fingerprint);
      const state = alert && withoutClock(alert.state);
      const text = JSON.stringify(state);
      if (text === noted.get(fingerprint)) continue;
      if (alert) noted.set(fingerprint, text);
      else noted.delete(fingerprint);
      waiting.set(PREFIX + fingerprint, alert ? JSON.stringify({ ...alert, state }) : null);
    }
  }

  async function save(): Promise<void> {
    const rows = [...waiting].map(([key, value]) => ({ key, value }));
    const changes = [...rows, ...postings.flatMap(posting => posting.changes())];
    if (changes.length > 0) await store.commit(account, changes);
    waiting.clear();
    postings = [];
  }

  return {
    async run() {
      const before = alerts;
      alerts = new Map([...rules.flatMap(evaluate), ...wither()]);
      const posting = outbox.post(account, newsOf(before, alerts), ({ wants }) => wants === 'changes');
      note();
      postings.push(posting);
      try {
        await save();
        isStoreFailing = false;
      } catch (error) {
        if (!isStoreFailing) log.error({ account, error: String(error) }, 'alerts go on, but are not stored');
        isStoreFailing = true;
      }
      posting.send();
    },
    save,
    alerts: () => [...alerts.values()],
    notices: () => [...alerts.values()].flatMap(alert => toNotice(alert) ?? []),
  };
}
