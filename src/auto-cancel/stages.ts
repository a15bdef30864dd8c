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

/** Current facts about an account's failure callbacks. */
export interface WalkView {
  /** Facts of the last complete walk; undefined before the first and while withdrawn. */
  readonly facts: CallbackFacts | undefined;
  /** Whether the last walk completed in time. */
  readonly isFresh: boolean;
  /** Whether the last read of the event log completed in time. */
  readonly eventsAreFresh: boolean;
}

/** Lease of the account by this process's clock (ms). */
export interface Lease {
  /** Remaining time in which no other replica can acquire it. */
  readonly left: number;
  /** Maximum duration of a cancel; none starts with less time left. */
  readonly needed: number;
}

/** Input of the account stages. Times: milliseconds since the Unix epoch. */
export interface AccountContext {
  readonly options: AutoCancelOptions;
  readonly journal: JournalState;
  readonly brake: { readonly pause: object | undefined; readonly isKnown: boolean };
  readonly walk: WalkView;
  /** Start of the walk to decide on; undefined: the newest. */
  readonly walkAt: number | undefined;
  /** Number of complete walks of this process before the first action. */
  readonly walksNeeded: number;
  readonly isStopped: boolean;
  readonly alerts: ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Difference between the wall clock and the service's clock (ms), or undefined if it is unknown. */
  readonly clockSkew: number | undefined;
  readonly lease: Lease | undefined;
  /** Wall clock, time for limits, and time for expiry (see `createLimitClock`). */
  readonly time: { readonly wall: number; readonly elapsed: number; readonly latest: number };
}

/** Result of rereading the entry right before a cancel. */
export interface FinalCheck {
  readonly state: CallbackState | 'unreported' | 'gone';
  readonly callbackMessageId: string | undefined;
  /** Result of the event look-up, if any. */
  readonly silence: Silence | undefined;
}

export interface CallbackContext extends AccountContext {
  readonly walkAt: number;
  readonly evaluated: EvaluatedCallback;
  /** Action of the callback if it belongs to the same rule, mode and policy. */
  readonly own: Action | undefined;
  /** Number of uses in the journal before the decisions on this walk. */
  readonly usesBefore: number;
  /** Undefined before the final check. */
  readonly look: FinalCheck | 'failed' | undefined;
  /** Whether the final check is too old. */
  readonly isLate: boolean;
}

interface Described {
  readonly name: string;
  /**
   * Possible results of `check`, which are values of the label `reason` of `delivery_auto_cancel_skipped_total`, with the rest of the
   * sentence "Nothing is cancelled because …" (Markdown).
   */
  readonly reasons: Readonly<Record<string, string>>;
  /** Additional sentence in the documentation. */
  readonly note?: string;
  /**
   * `decide`: checked before the intent is written and after each wait. `send`: checked again immediately before the request is written
   * to its connection. Waits and limits are excluded there, because the intent itself counts against the limits.
   */
  readonly phases: readonly ('decide' | 'send')[];
}

/** A stage can only forbid an action: `check` is pure and returns a key of `reasons`, or undefined. */
type AccountStage = Described & { check(context: AccountContext): string | undefined };
type CallbackStage = Described & { check(context: CallbackContext): string | undefined };

/** Reason if a newer walk has completed during a decision. */
export const NEWER_WALK = 'newer_walk';

const ALWAYS = ['decide', 'send'] as const;
const BEFORE_INTENT = ['decide'] as const;

/** Possible states in the final check. */
const LOOKED = ['success', 'fail', 'canceled', 'unknown', 'in_progress', 'unreported', 'gone'];

const walkStage: AccountStage = {
  name: 'walk',
  reasons: {
    no_data: 'no complete walk is available, or the last one is too old to be shown',
    [NEWER_WALK]: 'a newer walk has completed, and the next decision uses it',
    stale: 'the last walk failed or is overdue',
    partial: 'the last walk could not read every row, track every callback or read the complete list of workflow runs',
    too_early:
      'fewer than three walks have completed since the start or a change of the system clock by more than 30 s',
  },
  note: 'Logged if it lasts ten minutes',
  phases: ALWAYS,
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
    reasons: { not_leader: 'this replica’s lease of the account has expired, or ends too soon for a cancel' },
    phases: ALWAYS,
    check: ({ lease }) => (lease && lease.left <= lease.needed ? 'not_leader' : undefined),
  },
  walkStage,
  {
    name: 'clock',
    reasons: {
      clock_skew: `the clocks of the agent and the service differ by more than ${formatDuration(MAX_CLOCK_SKEW)}`,
      clock_unknown: 'the clock difference is unknown, because no recent response had a readable `Date`',
    },
    note: 'The agent measures the difference by the `Date` of every response; the largest one of the last five to ten minutes counts. `doctor` shows it',
    phases: ALWAYS,
    check({ clockSkew }) {
      if (clockSkew === undefined) return 'clock_unknown';
      return clockSkew > MAX_CLOCK_SKEW ? 'clock_skew' : undefined;
    },
  },
  {
    name: 'pause',
    reasons: {
      paused: 'an operator paused auto-cancel, or the row of the pause is missing or unreadable',
      pause_unknown: 'the store is unreadable, so it is unknown whether auto-cancel is paused',
    },
    phases: ALWAYS,
    check({ brake }) {
      if (brake.pause) return 'paused';
      return brake.isKnown ? undefined : 'pause_unknown';
    },
  },
  {
    name: 'stop file',
    reasons: {
      stop_file: 'the file `autoCancel.stopFile` exists, or its folder is unreadable or the link circular',
    },
    phases: ALWAYS,
    check: ({ isStopped }) => (isStopped ? 'stop_file' : undefined),
  },
  {
    name: 'alerts',
    reasons: {
      alert_firing: 'an alert in `pauseWhileAlerts` is firing',
      alert_unknown: 'the state of an alert in `pauseWhileAlerts` is unknown, for example right after the start',
    },
    phases: ALWAYS,
    check({ options, alerts }) {
      const states = options.pauseWhileAlerts.map(name => alerts.get(name));
      if (states.includes('firing')) return 'alert_firing';
      return states.includes('unknown') ? 'alert_unknown' : undefined;
    },
  },
  {
    name: 'breakers',
    reasons: Object.fromEntries(BREAKERS.map(breaker => [`breaker_${breaker}`, `the breaker \`${breaker}\` is open`])),
    phases: ALWAYS,
    check({ journal }) {
      const [open] = journal.breakers.keys();
      return open && `breaker_${open}`;
    },
  },
];

/** Returns why the final check forbids the cancel; undefined if the callback is unchanged since its evaluation. */
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

const CALLBACK_STAGES: readonly CallbackStage[] = [
  {
    name: 'wait',
    reasons: {
      grace: '`grace` has not ended; a walk after its end evaluates the callback again',
      awaiting_approval: 'no operator has approved it; a walk after the approval evaluates the callback again',
    },
    phases: BEFORE_INTENT,
    check({ journal, evaluated, own, walkAt, time }) {
      // An open action was sent before, so its wait is over.
      return journal.actions.get(evaluated.action)?.isOpen ? undefined : waitOf(evaluated, own, walkAt, time.latest);
    },
  },
  {
    name: 'rule',
    reasons: { rule_expired: 'the rule has expired since it was evaluated' },
    phases: ALWAYS,
    check: ({ options, evaluated: { rule, mode }, time }) =>
      modeOf(rule, options.mode, time.latest) === mode ? undefined : 'rule_expired',
  },
  {
    name: 'events',
    reasons: { unknown_idle_for: 'the rule has `idleFor`, and the event log data is not fresh' },
    phases: ALWAYS,
    check: ({ evaluated, walk }) => (evaluated.silence && !walk.eventsAreFresh ? 'unknown_idle_for' : undefined),
  },
  {
    name: 'windows',
    reasons: {
      window_closed: 'no window in `windows.allow` is open',
      window_denied: 'a window in `windows.deny` is open',
    },
    phases: ALWAYS,
    check: ({ evaluated: { rule }, time }) => windowReason(rule.windows, time.wall),
  },
  {
    name: 'approval',
    reasons: { approval_expired: 'the approval expired between the intent and the request' },
    phases: ['send'],
    check({ journal, evaluated: { action, mode }, time }) {
      const known = journal.actions.get(action);
      return mode !== 'approve' || (known && isApproved(known, time.latest)) ? undefined : 'approval_expired';
    },
  },
  {
    name: 'earlier cancels',
    reasons: {
      unresolved: 'a cancel of an earlier episode of the same callback has no outcome yet',
      sent_before:
        'a cancel was sent in this episode under the entry’s other id (`idFrom` was changed) or, with `blind`, in any episode',
      not_in_progress_lately:
        'the rule is `blind`, and the service reported no callback in progress within `recheckAfter`',
      rate_limited:
        'the service responded to at least two cancels of the callback with 429: the agent waits ten minutes, and twice as long after each further 429',
    },
    phases: BEFORE_INTENT,
    check: ({ journal, evaluated, time }) => earlierCancelReason(evaluated, journal, time.elapsed),
  },
  {
    name: 'limits',
    reasons: {
      cooldown: 'the last cancel with the same URL was less than `cooldown.perUrl` ago',
      limit_run: 'the limit of cancels per walk is used up',
      limit_hour: 'the limit of cancels per hour is used up',
      limit_day: 'the limit of cancels per day is used up',
    },
    note: 'The counts come from the journal, so a restart does not reset them',
    phases: BEFORE_INTENT,
    check: ({ options, journal, evaluated, time, usesBefore }) =>
      exhaustedLimit(evaluated, options, journal, time.elapsed, usesBefore),
  },
  {
    name: 'final check',
    reasons: {
      ...Object.fromEntries(LOOKED.map(state => [`now_${state}`, 'the state of the callback has changed'])),
      another_episode: 'the callback was run again',
      another_event: 'the event log shows a new event',
      idle_for: 'the newest event is more recent than `idleFor`',
      unknown_idle_for: 'the time of the newest event is unknown',
      look_failed: 'the entry could not be read again, or a row of the response was unreadable',
    },
    note: 'The agent reads the entry and the event log again right before the cancel',
    phases: BEFORE_INTENT,
    check({ evaluated, look }) {
      if (look === 'failed') return 'look_failed';
      return look && changeSince(evaluated, look);
    },
  },
  {
    name: 'deadline',
    reasons: { too_late: 'the final check is older than two minutes, or the intent older than 30 s' },
    phases: ALWAYS,
    check: ({ isLate }) => (isLate ? 'too_late' : undefined),
  },
];

/** First stage: skips a callback that is not stuck, for the finding's reason. */
const verdictStage: CallbackStage = {
  name: 'verdict',
  reasons: Object.fromEntries(
    NOT_STUCK.map(reason => [
      reason,
      'the callback is not stuck ([Verdicts and reasons](auto-cancel-rules.md#verdicts-and-reasons))',
    ]),
  ),
  phases: BEFORE_INTENT,
  check: ({ evaluated: { finding } }) => (finding.verdict === 'stuck' ? undefined : finding.reason),
};

/** All stages in the order of checking. The first reason decides. */
export const STAGES: readonly CallbackStage[] = [verdictStage, ...ACCOUNT_STAGES, ...CALLBACK_STAGES];

function firstReason<Context>(stages: readonly { check(context: Context): string | undefined }[], context: Context) {
  for (const stage of stages) {
    const reason = stage.check(context);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

const SEND_STAGES = STAGES.filter(({ phases }) => phases.includes('send'));
const DECIDE_STAGES = STAGES.filter(({ phases }) => phases.includes('decide'));

/** Returns why the walk is not reliable, or undefined. */
export const staleReason = (context: AccountContext) => walkStage.check(context);
/** Returns why a callback must be skipped, or undefined. */
export const skipReason = (context: CallbackContext) => firstReason(DECIDE_STAGES, context);
/** Returns why a request must not be sent after its intent was written, or undefined. */
export const abortReason = (context: CallbackContext) => firstReason(SEND_STAGES, context);
