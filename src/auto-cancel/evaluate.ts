import { durationTexts } from '../kit/duration.ts';
import { type CallbackSighting, retriesEndAfter, type Silence } from '../model/callback.ts';
import { CONDITION_KEYS, evaluateConditions } from '../model/entry-conditions.ts';
import type { Predicate, RuleFinding, Tristate, Verdict } from '../model/finding.ts';
import type { JournalTarget } from '../model/journal.ts';
import type { DlqEntry } from '../model/message.ts';
import type { AutoCancelOptions, AutoCancelRule, Mode } from './options.ts';
import { minimumSpan } from './stuck-when.ts';

/** Evidence about one entry. Times in ms since the Unix epoch; `lastEventAt` by the service's clock. */
export interface CallbackEvidence extends Silence {
  readonly sighting: CallbackSighting;
  /** Undefined if the row has no valid id. */
  readonly id: string | undefined;
}

function evaluateEvidence({ evidence }: AutoCancelRule, { callbackState }: DlqEntry): Predicate {
  const found = callbackState ?? 'no state';
  if (evidence === 'blind') {
    return { name: 'evidence', holds: callbackState === undefined, found, asked: 'blind: no state is reported' };
  }
  const isUnknown = callbackState === undefined || callbackState === 'unknown';
  const holds = isUnknown ? 'unknown' : callbackState === 'in_progress';
  return { name: 'evidence', holds, found, asked: 'reported: in_progress' };
}

function evaluateStuckWhen(rule: AutoCancelRule, { sighting, lastEventAt, askedAt }: CallbackEvidence): Predicate[] {
  const { snapshots, pastRetryWindow, idleFor } = rule.stuckWhen;
  const { entry, firstSeenAt, lastSeenAt } = sighting;
  // The time since the last walk proves nothing.
  const seenFor = lastSeenAt - firstSeenAt;
  const { key, ms } = minimumSpan(rule);
  const { retries, ms: longest } = retriesEndAfter(entry, rule.stuckWhen);
  const [seen, minimum] = durationTexts(seenFor / 1000, ms / 1000);
  const predicates: Predicate[] = [
    { name: `stuckWhen.${key}`, holds: seenFor >= ms, found: seen, asked: `at least ${minimum}` },
  ];
  const add = (name: keyof AutoCancelRule['stuckWhen'], holds: Tristate, found: string, asked: string) =>
    predicates.push({ name: `stuckWhen.${name}`, holds, found, asked });
  if (snapshots !== undefined) {
    add('snapshots', sighting.snapshots >= snapshots, String(sighting.snapshots), `at least ${snapshots}`);
  }
  const times = `${pastRetryWindow} times the window of ${retries} retries`;
  const [past, window] = Number.isFinite(longest) ? durationTexts(seenFor / 1000, longest / 1000) : [seen, 'unknown'];
  add('pastRetryWindow', seenFor > longest, past, `more than ${window}: ${times}`);
  if (idleFor !== undefined) {
    const isKnown = typeof lastEventAt === 'number';
    const idle = isKnown ? askedAt - lastEventAt : 0;
    const [time, limit] = durationTexts(idle / 1000, idleFor / 1000);
    const found = isKnown ? time : lastEventAt === 'none' ? 'no event' : 'unknown';
    add('idleFor', isKnown ? idle >= idleFor : 'unknown', found, `at least ${limit}`);
  }
  return predicates;
}

const snakeCase = (key: string) => key.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);

/** Reason if only the newest event is unknown. */
const UNKNOWN_EVENT = 'unknown_idle_for';

/** All reasons of `evaluate` except `stuck`. */
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

function reasonOf({ name, holds }: Predicate, { evidence }: AutoCancelRule): string {
  const key = snakeCase(name.slice(name.indexOf('.') + 1));
  if (name === 'id') return 'no_id';
  if (name === 'evidence' && holds === 'unknown') return 'unknown_callback_state';
  if (name === 'evidence') return evidence === 'blind' ? 'state_is_reported' : 'not_in_progress';
  if (holds === 'unknown') return `unknown_${key}`;
  if (name.startsWith('match.')) return 'no_match';
  return name.startsWith('except.') ? 'excepted' : key;
}

function evaluateId({ id }: CallbackEvidence): Predicate {
  const isKnown = id !== undefined;
  return { name: 'id', holds: isKnown || 'unknown', found: isKnown ? 'reported' : 'not reported', asked: 'reported' };
}

/**
 * Evaluates a rule for a failure callback. The callback is `stuck` if all predicates hold; otherwise the reason names one
 * that does not.
 */
export function evaluate(rule: AutoCancelRule, seen: CallbackEvidence): RuleFinding {
  const { entry } = seen.sighting;
  const about = [
    ...evaluateConditions('match', rule.match, entry),
    ...evaluateConditions('except', rule.except, entry),
  ];
  const needed = [evaluateEvidence(rule, entry), evaluateId(seen)];
  const stuckWhen = evaluateStuckWhen(rule, seen);
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

/** Whether only the unknown newest event prevents the verdict `stuck`. */
export const lacksEvents = ({ reason }: RuleFinding) => reason === UNKNOWN_EVENT;

export interface EvaluatedCallback {
  readonly action: string;
  readonly sighting: CallbackSighting;
  readonly target: JournalTarget;
  readonly rule: AutoCancelRule;
  readonly mode: Mode;
  readonly finding: RuleFinding;
  readonly silence: Silence | undefined;
  readonly shadowed: readonly RuleFinding[];
}

/** Returns the mode of a rule; `plan` if the rule has expired or the global mode is not `enforce`. */
export function modeOf(rule: AutoCancelRule, globalMode: AutoCancelOptions['mode'], now: number): Mode {
  const hasExpired = rule.expires !== null && now >= rule.expires;
  return globalMode !== 'enforce' || hasExpired ? 'plan' : rule.mode;
}
