import { MAX_CLOCK_SKEW } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import type { CallbackFacts, Silence } from '../model/callback.ts';
import { BREAKERS } from '../model/journal.ts';
import type { CallbackState } from '../model/message.ts';
import { closedBy, earlierCancel, exhaustedLimit } from './brakes.ts';
import type { Action, JournalState } from './journal-state.ts';
import { type Judged, judge, modeOf, NOT_STUCK } from './judge.ts';
import type { AutoCancelOptions } from './options.ts';
import { isApproved, waitOf } from './waits.ts';

/** Current facts about an account's failure callbacks. */
export interface WalkView {
  /** Facts of the last complete walk; undefined before the first, and while withdrawn. */
  readonly facts: CallbackFacts | undefined;
  /** Whether the last walk completed in time. */
  readonly isFresh: boolean;
  /** Whether the last read of the event log completed in time. */
  readonly eventsAreFresh: boolean;
}

/** Lease of the account by this process's clock. Milliseconds. */
export interface Lease {
  /** Time in which no other replica can hold it. */
  readonly left: number;
  /** Maximum duration of a cancel; none starts with less time left. */
  readonly needed: number;
}

/** Input of the account stages. Times: milliseconds since the Unix epoch. */
export interface AccountMoment {
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
  /** By the wall clock; for limits; for what ends (see `createLimitClock`). */
  readonly time: { readonly wall: number; readonly elapsed: number; readonly latest: number };
}

export interface LastLook {
  readonly state: CallbackState | 'unreported' | 'gone';
  readonly callbackMessageId: string | undefined;
  /** What the event log said, where it was asked. */
  readonly silence: Silence | undefined;
}

export interface CallbackMoment extends AccountMoment {
  readonly walkAt: number;
  readonly judged: Judged;
  /** Its action, where the same rule, mode and policy asked for it. */
  readonly own: Action | undefined;
  /** Uses in the journal when the decisions upon this walk began. */
  readonly usesBefore: number;
  /** Undefined before the final check. */
  readonly look: LastLook | 'failed' | undefined;
  /** The final check, or the intent, is too old to send anything upon it. */
  readonly isLate: boolean;
}

interface Described {
  readonly name: string;
  /**
   * What `check` may give, values of the label `reason` of `delivery_auto_cancel_skipped_total`, and what each says after
   * "nothing is cancelled because": Markdown.
   */
  readonly because: Readonly<Record<string, string>>;
  /** What else the documentation says of it. */
  readonly note?: string;
  /**
   * `decide`: asked before the intent is written, and again after each wait. `send`: asked as the request is written to its
   * connection, after which there are no waits and the intent itself counts against the limits.
   */
  readonly asked: readonly ('decide' | 'send')[];
}

/** A stage only removes: it gives why nothing is done, as one word of its `because`, or undefined. Pure. */
type AccountStage = Described & { check(moment: AccountMoment): string | undefined };
type CallbackStage = Described & { check(moment: CallbackMoment): string | undefined };

/** There is a newer walk than the one that is decided upon: the next decision is upon that. */
export const NEWER_WALK = 'newer_walk';

const ALWAYS = ['decide', 'send'] as const;
const BEFORE_INTENT = ['decide'] as const;

/** What the final check may find of the callback. */
const LOOKED = ['success', 'fail', 'canceled', 'unknown', 'in_progress', 'unreported', 'gone'];

const walkStage: AccountStage = {
  name: 'walk',
  because: {
    no_data: 'no complete walk is available, or the last one is too old to be shown',
    [NEWER_WALK]: 'a newer walk has completed, and the next decision uses it',
    stale: 'the last walk failed or is overdue',
    partial: 'the last walk could not read every row, track every callback or read the complete list of workflow runs',
    too_early:
      'fewer than three walks have completed since the start or a change of the system clock by more than 30 s',
  },
  note: 'Logged if it lasts ten minutes',
  asked: ALWAYS,
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
    because: { not_leader: 'this replica’s lease of the account has expired, or ends too soon for a cancel' },
    asked: ALWAYS,
    check: ({ lease }) => (lease && lease.left <= lease.needed ? 'not_leader' : undefined),
  },
  walkStage,
  {
    name: 'clock',
    because: {
      clock_skew: `the clocks of the agent and the service differ by more than ${formatDuration(MAX_CLOCK_SKEW)}`,
      clock_unknown: 'the clock difference is unknown, because no recent response had a readable `Date`',
    },
    note: 'The agent measures the difference by the `Date` of every response; the largest one of the last five to ten minutes counts. `doctor` shows it',
    asked: ALWAYS,
    check({ clockSkew }) {
      if (clockSkew === undefined) return 'clock_unknown';
      return clockSkew > MAX_CLOCK_SKEW ? 'clock_skew' : undefined;
    },
  },
  {
    name: 'pause',
    because: {
      paused: 'an operator paused auto-cancel, or the row of the pause is missing or unreadable',
      pause_unknown: 'the store is unreadable, so it is unknown whether auto-cancel is paused',
    },
    asked: ALWAYS,
    check({ brake }) {
      if (brake.pause) return 'paused';
      return brake.isKnown ? undefined : 'pause_unknown';
    },
  },
  {
    name: 'stop file',
    because: {
      stop_file: 'the file `autoCancel.stopFile` exists, or its folder is unreadable or the link circular',
    },
    asked: ALWAYS,
    check: ({ isStopped }) => (isStopped ? 'stop_file' : undefined),
  },
  {
    name: 'alerts',
    because: {
      alert_firing: 'an alert in `pauseWhileAlerts` is firing',
      alert_unknown: 'the state of an alert in `pauseWhileAlerts` is unknown, for example right after the start',
    },
    asked: ALWAYS,
    check({ options, alerts }) {
      const states = options.pauseWhileAlerts.map(name => alerts.get(name));
      if (states.includes('firing')) return 'alert_firing';
      return states.includes('unknown') ? 'alert_unknown' : undefined;
    },
  },
  {
    name: 'breakers',
    because: Object.fromEntries(BREAKERS.map(breaker => [`breaker_${breaker}`, `the breaker \`${breaker}\` is open`])),
    asked: ALWAYS,
    check({ journal }) {
      const [open] = journal.breakers.keys();
      return open && `breaker_${open}`;
    },
  },
];

/** Why the final check forbids the cancel, as one word; undefined when the callback is as it was judged. */
export function changeSince({ rule, sighting, target, silence: before }: Judged, look: LastLook): string | undefined {
  if (look.state !== (rule.evidence === 'blind' ? 'unreported' : 'in_progress')) return `now_${look.state}`;
  if (look.callbackMessageId !== sighting.entry.callbackMessageId) return 'another_episode';
  if (!before || !look.silence) return undefined;
  const { verdict, reason } = judge(rule, { sighting, id: target.id, ...look.silence });
  if (verdict !== 'stuck') return reason;
  return look.silence.lastEventAt === before.lastEventAt ? undefined : 'another_event';
}

const CALLBACK_STAGES: readonly CallbackStage[] = [
  {
    name: 'wait',
    because: {
      grace: '`grace` has not ended; a walk after its end evaluates the callback again',
      awaiting_approval: 'no operator has approved it; a walk after the approval evaluates the callback again',
    },
    asked: BEFORE_INTENT,
    check({ journal, judged, own, walkAt, time }) {
      // What was sent has waited.
      return journal.actions.get(judged.action)?.isOpen ? undefined : waitOf(judged, own, walkAt, time.latest);
    },
  },
  {
    name: 'rule',
    because: { rule_expired: 'the rule has expired since it was evaluated' },
    asked: ALWAYS,
    check: ({ options, judged: { rule, mode }, time }) =>
      modeOf(rule, options.mode, time.latest) === mode ? undefined : 'rule_expired',
  },
  {
    name: 'events',
    because: { unknown_idle_for: 'the rule has `idleFor`, and the event log data is not fresh' },
    asked: ALWAYS,
    check: ({ judged, walk }) => (judged.silence && !walk.eventsAreFresh ? 'unknown_idle_for' : undefined),
  },
  {
    name: 'windows',
    because: {
      window_closed: 'no window in `windows.allow` is open',
      window_denied: 'a window in `windows.deny` is open',
    },
    asked: ALWAYS,
    check: ({ judged: { rule }, time }) => closedBy(rule.windows, time.wall),
  },
  {
    name: 'approval',
    because: { approval_expired: 'the approval expired between the intent and the request' },
    asked: ['send'],
    check({ journal, judged: { action, mode }, time }) {
      const known = journal.actions.get(action);
      return mode !== 'approve' || (known && isApproved(known, time.latest)) ? undefined : 'approval_expired';
    },
  },
  {
    name: 'earlier cancels',
    because: {
      unresolved: 'a cancel of an earlier episode of the same callback has no outcome yet',
      sent_before:
        'a cancel was sent in this episode under the entry’s other id (`idFrom` was changed) or, with `blind`, in any episode',
      not_in_progress_lately:
        'the rule is `blind`, and the service reported no callback in progress within `recheckAfter`',
      rate_limited:
        'at least two cancels of the callback were answered with 429: the agent waits ten minutes, and twice as long after each further 429',
    },
    asked: BEFORE_INTENT,
    check: ({ journal, judged, time }) => earlierCancel(judged, journal, time.elapsed),
  },
  {
    name: 'limits',
    because: {
      cooldown: 'the last cancel with the same URL was less than `cooldown.perUrl` ago',
      limit_run: 'the limit of cancels per walk is used up',
      limit_hour: 'the limit of cancels per hour is used up',
      limit_day: 'the limit of cancels per day is used up',
    },
    note: 'The counts come from the journal, so a restart does not reset them',
    asked: BEFORE_INTENT,
    check: ({ options, journal, judged, time, usesBefore }) =>
      exhaustedLimit(judged, options, journal, time.elapsed, usesBefore),
  },
  {
    name: 'final check',
    because: {
      ...Object.fromEntries(LOOKED.map(state => [`now_${state}`, 'the state of the callback has changed'])),
      another_episode: 'the callback was run again',
      another_event: 'the event log shows a new event',
      idle_for: 'the newest event is more recent than `idleFor`',
      unknown_idle_for: 'the time of the newest event is unknown',
      look_failed: 'the entry could not be read again, or a row of the response was unreadable',
    },
    note: 'The agent reads the entry and the event log again right before the cancel',
    asked: BEFORE_INTENT,
    check({ judged, look }) {
      if (look === 'failed') return 'look_failed';
      return look && changeSince(judged, look);
    },
  },
  {
    name: 'deadline',
    because: { too_late: 'the final check is older than two minutes, or the intent older than 30 s' },
    asked: ALWAYS,
    check: ({ isLate }) => (isLate ? 'too_late' : undefined),
  },
];

/** Before all stages: a callback that its rule does not call stuck is left alone for the finding's reason. */
const verdictStage: CallbackStage = {
  name: 'verdict',
  because: Object.fromEntries(
    NOT_STUCK.map(reason => [
      reason,
      'the callback is not stuck ([Verdicts and reasons](auto-cancel-rules.md#verdicts-and-reasons))',
    ]),
  ),
  asked: BEFORE_INTENT,
  check: ({ judged: { finding } }) => (finding.verdict === 'stuck' ? undefined : finding.reason),
};

/** Every stage in the order in which they are asked; the first that gives a reason decides. */
export const STAGES: readonly CallbackStage[] = [verdictStage, ...ACCOUNT_STAGES, ...CALLBACK_STAGES];

function firstReason<Moment>(stages: readonly { check(moment: Moment): string | undefined }[], moment: Moment) {
  for (const stage of stages) {
    const reason = stage.check(moment);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

const SEND_STAGES = STAGES.filter(({ asked }) => asked.includes('send'));
const DECIDE_STAGES = STAGES.filter(({ asked }) => asked.includes('decide'));

/** Why the walk that is decided upon can't be relied on. */
export const staleReason = (moment: AccountMoment) => walkStage.check(moment);
export const skipReason = (moment: CallbackMoment) => firstReason(DECIDE_STAGES, moment);
/** Why a request whose intent is written must not be sent. */
export const abortReason = (moment: CallbackMoment) => firstReason(SEND_STAGES, moment);
