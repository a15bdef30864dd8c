import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Store } from '../store/store.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import { type AlertingRule, expand } from './options.ts';
import type { Outbox, Posting } from './outbox.ts';
import { type AlertState, advance, withoutClock } from './state.ts';

type Labels = Readonly<Record<string, string>>;

type Holding = { readonly labels: Labels; readonly value: number; readonly heldFor?: number | undefined };

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
  /** Whether it may be that its condition holds though it does not seem so: of the alert with these labels, or of any. */
  isDoubtful?(rule: string, labels?: Labels): boolean;
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
  /** Rules of which something fires, or is not known: of all before the first evaluation. */
  braking(): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Series of a rule of which its condition holds and that have no alert of their own, for there are too many. */
  beyondCap(rule: string): number;
  /** Of what fires, and of what was resolved lately. */
  notices(): readonly Notice[];
}

const PREFIX = 'alerts/state/';

/**
 * Alerts of one rule in an account at most, those that were resolved within the last 15 minutes included: else keys that
 * come and go would make as many alerts, and twice as many notices. More than a hundred are not read one by one. What is
 * beyond has one alert together.
 */
const MOST_ALERTS = 100;

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
  const beyond = new Map<string, number>();
  const unknown = new Set(rules.map(({ name }) => name));
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

  const isDoubtful = (rule: string, labels?: Labels) => deps.isDoubtful?.(rule, labels) ?? false;

  /** The one alert of what is beyond the cap. */
  function overflow({ name, labels }: AlertingRule, value: number): Omit<Alert, 'state'> {
    const summary = `${value} more series have the alert ${name} than the ${MOST_ALERTS} that are told one by one.`;
    const identity = withoutEmpty({ ...labels, alertname: name, account, overflow: 'true' });
    return { rule: name, labels: identity, annotations: { summary }, value };
  }

  /** What a rule's alerts are after this evaluation. */
  function evaluate(rule: AlertingRule): [string, Alert][] {
    const { name, labels: more, annotations, ...patience } = rule;
    const { listed, others } = read(judgeSafely(name));
    if (others === 'unknown' || isDoubtful(name)) unknown.add(name);
    else unknown.delete(name);
    const moment = { now: clock.now(), monotonic: clock.monotonic() };
    const known = new Map([...alerts].filter(([, alert]) => alert.rule === name));
    const holding = new Map<string, Omit<Alert, 'state'>>();
    const heldFor = new Map<string, number | undefined>();
    let room = MOST_ALERTS - known.size;
    let left = 0;
    for (const { labels: own, value, heldFor: held } of listed) {
      const labels = withoutEmpty({ ...own, ...more, alertname: name, account });
      const fingerprint = fingerprintOf(labels);
      if (!known.has(fingerprint) && room <= 0) {
        left += 1;
        continue;
      }
      if (!known.has(fingerprint) && !holding.has(fingerprint)) room -= 1;
      const texts = Object.entries(annotations).map(([key, text]) => [key, expand(text, labels, value)] as const);
      holding.set(fingerprint, { rule: name, labels, annotations: Object.fromEntries(texts), value });
      heldFor.set(fingerprint, held);
    }
    if (others === false || left > 0) beyond.set(name, left);
    if (left > 0) {
      const rest = overflow(rule, left);
      holding.set(fingerprintOf(rest.labels), rest);
    }
    return [...new Map([...known, ...holding])].flatMap(([fingerprint, alert]): [string, Alert][] => {
      const isOver = others === false && !isDoubtful(name, alert.labels);
      const holds = holding.has(fingerprint) || (isOver ? false : 'unknown');
      const evaluation = { holds, heldFor: heldFor.get(fingerprint), ...moment } as const;
      const state = advance(known.get(fingerprint)?.state, patience, evaluation);
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
      if (posting.changes().length > 0) postings.push(posting);
      try {
        await save();
        isStoreFailing = false;
      } catch (error) {
        if (!isStoreFailing) log.error({ account, error: String(error) }, 'alerts go on, but are not stored');
        isStoreFailing = true;
        // What was told of meanwhile needs no row any more.
        postings = postings.filter(each => each.changes().length > 0);
      }
      posting.send();
    },
    save,
    alerts: () => [...alerts.values()],
    braking: () =>
      new Map<string, 'firing' | 'unknown'>([
        ...[...unknown].map(rule => [rule, 'unknown'] as const),
        ...[...alerts.values()].flatMap(({ rule, state }) =>
          state.phase === 'firing' ? [[rule, 'firing'] as const] : [],
        ),
      ]),
    beyondCap: rule => beyond.get(rule) ?? 0,
    notices: () => [...alerts.values()].flatMap(alert => toNotice(alert) ?? []),
  };
}
