import { MAX_CLOCK_SKEW } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import type { CallbackFacts, Silence } from '../model/callback.ts';
import { BREAKERS } from '../model/journal.ts';
import type { CallbackState } from '../model/message.ts';
import { type EvaluatedCallback, evaluate, modeOf, NOT_STUCK } from './evaluate.ts';
import type { Action, JournalState } from './journal-state.ts';
import { earlierCancelReason, exhaustedLimit, windowReason } from './limits.ts';
import type { AutoCancelOptions } from './options.ts';
import { isApproved, waitOf } from './waits.ts';

export interface WalkView {
  /** Undefined before the first complete walk and after withdrawal. */
  readonly facts: CallbackFacts | undefined;
  /** Whether the last walk succeeded and its data is fresh. */
  readonly isFresh: boolean;
  /** Whether the last read of the event log succeeded and its data is fresh. */
  readonly eventsAreFresh: boolean;
}

export interface Lease {
  /** Time until another process may acquire the lease (ms). */
  readonly left: number;
  /** Maximum duration of a cancel (ms). No cancel starts with less time left. */
  readonly needed: number;
}

/** Input of the account stages. Times in ms since the Unix epoch. */
export interface AccountContext {
  readonly options: AutoCancelOptions;
  readonly journal: JournalState;
  readonly brake: { readonly pause: object | undefined; readonly isKnown: boolean };
  readonly walk: WalkView;
  /** Start of the walk to decide on; undefined for the newest. */
  readonly walkAt: number | undefined;
  /** Complete walks required before the first action. */
  readonly walksNeeded: number;
  readonly isStopped: boolean;
  readonly alerts: ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Difference between the wall clock and the service's clock (ms); undefined if unknown. */
  readonly clockSkew: number | undefined;
  readonly lease: Lease | undefined;
  readonly time: { readonly wall: number; readonly elapsed: number; readonly latest: number };
}

/** Result of rereading the entry before a cancel. */
export interface FinalCheck {
  readonly state: CallbackState | 'unreported' | 'gone';
  readonly callbackMessageId: string | undefined;
  readonly silence: Silence | undefined;
}

/**
 * Due time of a callback's next delivery (ms since the Unix epoch, by the service's clock); `none` if no delivery follows, or
 * if the service does not list workflow runs; otherwise, the reason why the time is unknown.
 */
export type NextDelivery = number | 'none' | 'run_unread' | 'run_not_listed' | 'run_unknown';

export interface CallbackContext extends AccountContext {
  readonly walkAt: number;
  readonly evaluated: EvaluatedCallback;
  /** Action of the callback under the same rule, mode and policy. */
  readonly own: Action | undefined;
  /** Length of the journal's `uses` before the decisions on this walk. */
  readonly usesBefore: number;
  /** Undefined before the final check. */
  readonly look: FinalCheck | 'failed' | undefined;
  /** Undefined before the look-up, which follows the final check. */
  readonly next: NextDelivery | undefined;
  /** Whether the final check is too old. */
  readonly isLate: boolean;
}

interface Described {
  readonly name: string;
  /** Possible results of `check`, each with the rest of the sentence "Nothing is cancelled because …" (Markdown). */
  readonly reasons: Readonly<Record<string, string>>;
  /**
   * `decide`: only before the intent is written. `send`: only before the request is sent. Default: both. Waits and limits are not
   * checked before the request, because the intent has ended the wait and itself counts against the limits.
   */
  readonly only?: 'decide' | 'send';
}

/** A stage can only forbid an action. `check` is pure and returns a key of `reasons`, or undefined. */
type AccountStage = Described & { check(context: AccountContext): string | undefined };
type CallbackStage = Described & { check(context: CallbackContext): string | undefined };

export const NEWER_WALK = 'newer_walk';

const LOOKED = ['success', 'fail', 'canceled', 'unknown', 'in_progress', 'unreported', 'gone'];

const walkStage: AccountStage = {
  name: 'walk',
  reasons: {
    no_data: 'no complete walk is available, or the last one is too old',
    [NEWER_WALK]: 'a newer walk has completed; the next decision uses it',
    stale: 'the last walk failed or is overdue',
    partial: 'the last walk did not read all rows, callbacks and workflow runs',
    too_early: 'fewer than three walks have completed since startup or a clock change of more than 30 s',
  },
  check({ walk: { facts, isFresh }, walkAt, walksNeeded }) {
    if (!facts) return 'no_data';
    if (walkAt !== undefined && facts.at !== walkAt) return NEWER_WALK;
    if (!isFresh) return 'stale';
    if (facts.isPartial) return 'partial';
    return facts.walks < walksNeeded ? 'too_early' : undefined;
  },
};

export const ACCOUNT_STAGES: readonly AccountStage[] = [
  {
    name: 'leader',
    reasons: { not_leader: 'this process’s lease has expired, or ends too soon for a cancel' },
    check: ({ lease }) => (lease && lease.left <= lease.needed ? 'not_leader' : undefined),
  },
  walkStage,
  {
    name: 'clock',
    reasons: {
      clock_skew: `the clocks of the agent and the service differ by more than ${formatDuration(MAX_CLOCK_SKEW)}`,
      clock_unknown: 'no recent response had a readable header `Date`',
    },
    check({ clockSkew }) {
      if (clockSkew === undefined) return 'clock_unknown';
      return clockSkew > MAX_CLOCK_SKEW ? 'clock_skew' : undefined;
    },
  },
  {
    name: 'pause',
    reasons: {
      paused: 'an operator paused auto-cancel, or the pause row is missing or unreadable',
      pause_unknown: 'the store is unreadable',
    },
    check({ brake }) {
      if (brake.pause) return 'paused';
      return brake.isKnown ? undefined : 'pause_unknown';
    },
  },
  {
    name: 'stop file',
    reasons: {
      stop_file: 'the file `autoCancel.stopFile` exists, or the agent cannot check it',
    },
    check: ({ isStopped }) => (isStopped ? 'stop_file' : undefined),
  },
  {
    name: 'alerts',
    reasons: {
      alert_firing: 'an alert in `pauseWhileAlerts` is firing',
      alert_unknown: 'the state of an alert in `pauseWhileAlerts` is unknown, for example after startup',
    },
    check({ options, alerts }) {
      const states = options.pauseWhileAlerts.map(name => alerts.get(name));
      if (states.includes('firing')) return 'alert_firing';
      return states.includes('unknown') ? 'alert_unknown' : undefined;
    },
  },
  {
    name: 'breakers',
    reasons: Object.fromEntries(BREAKERS.map(breaker => [`breaker_${breaker}`, 'this breaker is open'])),
    check({ journal }) {
      const [open] = journal.breakers.keys();
      return open && `breaker_${open}`;
    },
  },
];

/** Returns the change since the evaluation; undefined without one. */
export function changeSince(
  { rule, sighting, target, silence: before }: EvaluatedCallback,
  look: FinalCheck,
): string | undefined {
  if (look.state !== (rule.evidence === 'blind' ? 'unreported' : 'in_progress')) return `now_${look.state}`;
  if (look.callbackMessageId !== sighting.entry.callbackMessageId) return 'another_episode';
  if (!before || !look.silence) return undefined;
  const { verdict, reason } = evaluate(rule, { sighting, id: target.id, ...look.silence });
  if (verdict !== 'stuck') return reason;
  return look.silence.lastEventAt === before.lastEventAt ? undefined : 'another_event';
}

const nextDeliveryStage: CallbackStage = {
  name: 'next delivery',
  reasons: {
    next_delivery: 'the service will deliver the callback again: it is waiting, not stuck',
    run_unread: 'the list of workflow runs could not be read, or a row of the response was unreadable',
    run_not_listed:
      'the run (or, unless the rule is `blind`, its failure callback) is missing from the list of workflow runs',
    run_unknown: 'the service lists workflow runs, but the dead letter lacks a valid run id or the run’s creation time',
  },
  check({ next, time }) {
    if (next === undefined || next === 'none') return undefined;
    if (typeof next === 'string') return next;
    // The service's clock may be behind by the permitted skew.
    return next > time.wall - MAX_CLOCK_SKEW ? 'next_delivery' : undefined;
  },
};

/** Whether only a look-up of the next delivery can find a reason. */
export const isAboutNextDelivery = (reason: string): boolean => reason in nextDeliveryStage.reasons;

const CALLBACK_STAGES: readonly CallbackStage[] = [
  {
    name: 'wait',
    reasons: {
      grace: '`grace` has not ended, or no walk has completed since its end',
      awaiting_approval: 'no operator has approved the action, or the approval has expired',
    },
    only: 'decide',
    check({ journal, evaluated, own, walkAt, time }) {
      // The wait of an open action is over.
      return journal.actions.get(evaluated.action)?.isOpen ? undefined : waitOf(evaluated, own, walkAt, time.latest);
    },
  },
  {
    name: 'rule',
    reasons: { rule_expired: 'the rule has expired since it was evaluated' },
    check: ({ options, evaluated: { rule, mode }, time }) =>
      modeOf(rule, options.mode, time.latest) === mode ? undefined : 'rule_expired',
  },
  {
    name: 'events',
    reasons: { unknown_idle_for: 'the rule has `idleFor`, and the event log data is not fresh' },
    check: ({ evaluated, walk }) => (evaluated.silence && !walk.eventsAreFresh ? 'unknown_idle_for' : undefined),
  },
  {
    name: 'windows',
    reasons: {
      window_closed: 'no window in `windows.allow` is open',
      window_denied: 'a window in `windows.deny` is open',
    },
    check: ({ evaluated: { rule }, time }) => windowReason(rule.windows, time.wall),
  },
  {
    name: 'approval',
    reasons: { approval_expired: 'the approval expired between the intent and the request' },
    only: 'send',
    check({ journal, evaluated: { action, mode }, time }) {
      const known = journal.actions.get(action);
      return mode !== 'approve' || (known && isApproved(known, time.latest)) ? undefined : 'approval_expired';
    },
  },
  {
    name: 'earlier cancels',
    reasons: {
      unresolved: 'an earlier cancel of the same callback has no outcome yet',
      sent_before:
        'a cancel was already sent: in this episode with another `idFrom`, or in any episode if the rule is `blind`',
      not_in_progress_lately:
        'the rule is `blind`, and the service refused a cancel less than `recheckAfter` ago: no callback was in progress',
      rate_limited:
        'the service responded to two or more cancels of this callback with 429; the agent waits ten minutes, and doubles this wait after each further 429',
    },
    only: 'decide',
    check: ({ journal, evaluated, time }) => earlierCancelReason(evaluated, journal, time.elapsed),
  },
  {
    name: 'limits',
    reasons: {
      cooldown: 'the last cancel (in mode `plan`: the last plan) with the same URL was less than `cooldown.perUrl` ago',
      limit_run: 'this limit on cancels (in mode `plan`: on plans) is reached',
      limit_hour: 'this limit on cancels (in mode `plan`: on plans) is reached',
      limit_day: 'this limit on cancels (in mode `plan`: on plans) is reached',
    },
    only: 'decide',
    check: ({ options, journal, evaluated, time, usesBefore }) =>
      exhaustedLimit(evaluated, options, journal, time.elapsed, usesBefore),
  },
  {
    name: 'final check',
    reasons: {
      ...Object.fromEntries(LOOKED.map(state => [`now_${state}`, 'the state of the callback has changed'])),
      another_episode: 'the callback was re-run',
      another_event: 'the event log contains a new event',
      idle_for: 'the newest event is more recent than `idleFor` allows',
      unknown_idle_for: 'the time of the newest event is unknown',
      look_failed: 'the entry could not be read again, or a row of the response was unreadable',
    },
    only: 'decide',
    check({ evaluated, look }) {
      if (look === 'failed') return 'look_failed';
      return look && changeSince(evaluated, look);
    },
  },
  nextDeliveryStage,
  {
    name: 'deadline',
    reasons: { too_late: 'the final check is older than two minutes, or the intent is older than 30 s' },
    check: ({ isLate }) => (isLate ? 'too_late' : undefined),
  },
];

const verdictStage: CallbackStage = {
  name: 'verdict',
  reasons: Object.fromEntries(
    NOT_STUCK.map(reason => [reason, 'the callback is [not stuck](auto-cancel.md#verdicts-and-reasons)']),
  ),
  only: 'decide',
  check: ({ evaluated: { finding } }) => (finding.verdict === 'stuck' ? undefined : finding.reason),
};

/** All stages in order. The first reason decides. */
export const STAGES: readonly CallbackStage[] = [verdictStage, ...ACCOUNT_STAGES, ...CALLBACK_STAGES];

const firstReason = (stages: readonly CallbackStage[], context: CallbackContext) =>
  stages
    .values()
    .map(stage => stage.check(context))
    .find(reason => reason !== undefined);

const SEND_STAGES = STAGES.filter(({ only }) => only !== 'decide');
const DECIDE_STAGES = STAGES.filter(({ only }) => only !== 'send');

/** Returns why the walk is not reliable, or undefined. */
export const staleReason = (context: AccountContext) => walkStage.check(context);
/** Returns why a callback is skipped, or undefined. */
export const skipReason = (context: CallbackContext) => firstReason(DECIDE_STAGES, context);
/** Returns why a request must not be sent, or undefined. */
export const abortReason = (context: CallbackContext) => firstReason(SEND_STAGES, context);
