import { formatDuration } from '../kit/duration.ts';
import type { CallbackSighting, Silence } from '../model/callback.ts';
import type { Finding, Holds, Predicate, Verdict } from '../model/finding.ts';
import type { JournalTarget } from '../model/journal.ts';
import type { DlqEntry } from '../model/message.ts';
import { CONDITION_KEYS, judgeConditions } from './conditions.ts';
import type { AutoCancelOptions, JudgingRule, Mode, Rule } from './options.ts';
import { askedSpan, retryWindow } from './stuck-when.ts';

/** What is known of one entry. Times: milliseconds since the Unix epoch, by our own clock but for `lastEventAt`. */
export interface Seen {
  readonly sighting: CallbackSighting;
  /** What would be sent; undefined when the row has none. */
  readonly id: string | undefined;
  /** The newest event of the entry's message and of its callback's; undefined: not known. */
  readonly lastEventAt: number | 'none' | undefined;
  /** When the newest event was asked for: since then nothing is known of silence. */
  readonly askedAt: number;
}

/** Milliseconds as text, to the second, at most two units: `1h30m`. */
function span(ms: number): string {
  if (!Number.isFinite(ms)) return 'unknown';
  if (ms < 0) return `-${span(-ms)}`;
  const seconds = Math.floor(ms / 1000);
  const units = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const;
  const first = units.findIndex(([count]) => count > 0);
  if (first === -1) return '0s';
  return units
    .slice(first, first + 2)
    .flatMap(([count, unit]) => (count > 0 ? [`${count}${unit}`] : []))
    .join('');
}

function judgeEvidence({ evidence }: JudgingRule, { callbackState }: DlqEntry): Predicate {
  const found = callbackState ?? 'no state';
  if (evidence === 'blind') {
    return { name: 'evidence', holds: callbackState === undefined, found, asked: 'blind: no state is reported' };
  }
  const isUnknown = callbackState === undefined || callbackState === 'unknown';
  const holds = isUnknown ? 'unknown' : callbackState === 'in_progress';
  return { name: 'evidence', holds, found, asked: 'reported: in_progress' };
}

/** The retries that the callback may have. Those of the failed message are not its own: they never make it fewer. */
function retriesOf({ maxRetries }: DlqEntry, assumed: number): number {
  return maxRetries !== undefined && Number.isInteger(maxRetries) ? Math.max(maxRetries, assumed) : assumed;
}

function judgeStuckWhen(rule: JudgingRule, { sighting, lastEventAt, askedAt }: Seen): Predicate[] {
  const { snapshots, maxGap, pastRetryWindow, assumeMaxRetries, assumeTimeout, idleFor } = rule.stuckWhen;
  const { entry, firstSeenAt, lastSeenAt } = sighting;
  // What walks really saw: the time since the last one proves nothing.
  const seenFor = lastSeenAt - firstSeenAt;
  const { key, ms } = askedSpan(rule);
  const retries = retriesOf(entry, assumeMaxRetries);
  const longest = pastRetryWindow * retryWindow(retries, assumeTimeout);
  const predicates: Predicate[] = [
    { name: `stuckWhen.${key}`, holds: seenFor >= ms, found: span(seenFor), asked: `at least ${formatDuration(ms)}` },
  ];
  const add = (name: keyof JudgingRule['stuckWhen'], holds: Holds, found: string, asked: string) =>
    predicates.push({ name: `stuckWhen.${name}`, holds, found, asked });
  if (snapshots !== undefined) {
    add('snapshots', sighting.snapshots >= snapshots, String(sighting.snapshots), `at least ${snapshots}`);
  }
  if (maxGap !== undefined) {
    // A longer pause would have begun another episode.
    add('maxGap', true, 'no longer pause', `at most ${formatDuration(maxGap)}`);
  }
  const times = `${pastRetryWindow} times the window of ${retries} retries`;
  add('pastRetryWindow', seenFor > longest, span(seenFor), `more than ${span(longest)}: ${times}`);
  if (idleFor !== undefined) {
    const isKnown = typeof lastEventAt === 'number';
    const found = isKnown ? span(askedAt - lastEventAt) : lastEventAt === 'none' ? 'no event' : 'not known';
    add(
      'idleFor',
      isKnown ? askedAt - lastEventAt >= idleFor : 'unknown',
      found,
      `at least ${formatDuration(idleFor)}`,
    );
  }
  return predicates;
}

const snakeCase = (key: string) => key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);

/** Only the newest event is missing: the log was not asked, or could not tell. */
const UNKNOWN_EVENT = 'unknown_idle_for';

/** Every reason that `judge` gives beside `stuck`. */
export const NOT_STUCK: readonly string[] = [
  'no_match',
  'excepted',
  'not_in_progress',
  'state_is_reported',
  'unknown_callback_state',
  'no_id',
  'in_progress_for',
  'seen_for',
  'snapshots',
  'past_retry_window',
  'idle_for',
  UNKNOWN_EVENT,
  ...CONDITION_KEYS.map(key => `unknown_${snakeCase(key)}`),
];

/** Why a predicate does not hold, as one word of `NOT_STUCK`. */
function reasonOf({ name, holds }: Predicate, { evidence }: JudgingRule): string {
  const key = snakeCase(name.slice(name.indexOf('.') + 1));
  if (name === 'id') return 'no_id';
  if (name === 'evidence' && holds === 'unknown') return 'unknown_callback_state';
  if (name === 'evidence') return evidence === 'blind' ? 'state_is_reported' : 'not_in_progress';
  if (holds === 'unknown') return `unknown_${key}`;
  if (name.startsWith('match.')) return 'no_match';
  return name.startsWith('except.') ? 'excepted' : key;
}

function judgeId({ id }: Seen): Predicate {
  const isKnown = id !== undefined;
  return { name: 'id', holds: isKnown || 'unknown', found: isKnown ? 'reported' : 'not reported', asked: 'reported' };
}

/**
 * Evaluates a rule for a failure callback: `stuck` if every predicate holds. The reason is the first that does not:
 * predicates of the match, then evidence and id, then those that are false, then unknown ones.
 */
export function judge(rule: JudgingRule, seen: Seen): Finding {
  const { entry } = seen.sighting;
  const about = [...judgeConditions('match', rule.match, entry), ...judgeConditions('except', rule.except, entry)];
  const needed = [judgeEvidence(rule, entry), judgeId(seen)];
  const stuckWhen = judgeStuckWhen(rule, seen);
  const predicates = [...about, ...needed, ...stuckWhen];
  const isFalse = ({ holds }: Predicate) => holds === false;
  const isOpen = ({ holds }: Predicate) => holds !== true;
  const failed = about.find(isFalse) ?? needed.find(isOpen) ?? stuckWhen.find(isFalse) ?? predicates.find(isOpen);
  const verdict = (): Verdict => {
    if (!failed) return 'stuck';
    if (failed.holds === 'unknown') return 'unknown';
    return about.includes(failed) ? 'no_match' : 'not_stuck';
  };
  return { rule: rule.name, verdict: verdict(), reason: failed ? reasonOf(failed, rule) : 'stuck', predicates };
}

/** Whether a callback would be stuck but for its newest event, which is not known. */
export const lacksEvents = ({ reason }: Finding) => reason === UNKNOWN_EVENT;

/** A failure callback, and the one rule whose finding counts for it. */
export interface Judged {
  readonly action: string;
  readonly sighting: CallbackSighting;
  readonly target: JournalTarget;
  readonly rule: Rule;
  readonly mode: Mode;
  readonly finding: Finding;
  /** What the event log said, where it was asked. */
  readonly silence: Silence | undefined;
  /** Findings of the other rules that match it. */
  readonly shadowed: readonly Finding[];
}

/** What a rule may do now: no more than the global mode, and only plan once it has expired. `now`: milliseconds since the Unix epoch. */
export function modeOf(rule: Rule, globalMode: AutoCancelOptions['mode'], now: number): Mode {
  const hasExpired = rule.expires !== null && now >= rule.expires;
  return globalMode !== 'enforce' || hasExpired ? 'plan' : rule.mode;
}

/** Whether a rule may be about an entry of whose failure callback the service says nothing, so that it must be tracked. */
export function wantsUnreported(rule: JudgingRule, entry: DlqEntry): boolean {
  return (
    rule.evidence === 'blind' &&
    judgeConditions('match', rule.match, entry).every(({ holds }) => holds === true) &&
    judgeConditions('except', rule.except, entry).every(({ holds }) => holds === true)
  );
}

type Walked = readonly { readonly stuckWhen: { readonly maxGap?: number | undefined } }[];

const shortestGap = (rules: Walked) =>
  Math.min(...rules.map(({ stuckWhen }) => stuckWhen.maxGap ?? Number.POSITIVE_INFINITY));

/**
 * The longest pause between two complete walks of an account, in milliseconds, after which every episode starts over: the
 * shortest that one of its rules names, else half an hour, or three walks where that is longer.
 */
export function allowedGap(rules: Walked, rescanEvery: number): number {
  const named = shortestGap(rules);
  return Number.isFinite(named) ? named : Math.max(30 * 60_000, 3 * rescanEvery);
}

/** Milliseconds between two complete walks: as configured, or twice in the shortest gap that a rule allows. */
export function walkEvery(rules: Walked, rescanEvery: number): number {
  return Math.min(rescanEvery, shortestGap(rules) / 2);
}
