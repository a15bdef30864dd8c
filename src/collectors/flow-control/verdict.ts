import type { FlowReason, FlowState } from '../../model/flow-state.ts';
import type { Attempts } from './attempts.ts';
import { timeToDrain } from './drain.ts';
import { type Evidence, ghostSlots, type KeySample } from './evidence.ts';

export interface KeyEvaluation {
  readonly state: FlowState;
  readonly reason: FlowReason;
  /** Ghost slots: in use, but without a running attempt. Undefined if unknown. */
  readonly ghosts: number | undefined;
  /** Time until the waitlist is empty (ms); undefined unless it drains. */
  readonly drainsIn: number | undefined;
}

/** Inputs of an evaluation. Times are in milliseconds since the Unix epoch. */
export interface EvaluationContext {
  readonly now: number;
  /** Undefined if the log is not read, or its data is withdrawn. */
  readonly attempts: Attempts | undefined;
  /** Time up to which the log is settled, so that reads of keys can be compared with it. */
  readonly settledTo: number;
  /** Whether keys change although the log lists no new events. */
  readonly isLate: boolean;
}

/** Period of the reads that determine whether a key is throttled or starved (ms). */
const WINDOW = 120_000;
/** Minimum time between the first and the last of these reads (ms). */
const MIN_DURATION = 45_000;
const MIN_READS = 3;
/** Minimum share of the rate limit that a key must use to count as throttled by its rate. */
const RATE_SHARE = 0.75;
/** Maximum age of the settled part of the log, and of comparisons with it (ms). */
const MAX_LAG = 420_000;

const isRateUsedUp = ({ rateUsed, rateLimit }: KeySample) =>
  rateUsed !== undefined && rateLimit !== undefined && rateUsed >= rateLimit;
const isFull = ({ parallelismInUse, parallelismLimit }: KeySample) =>
  parallelismLimit !== undefined && (parallelismInUse ?? 0) >= parallelismLimit;
const isMost = (samples: readonly KeySample[], test: (sample: KeySample) => boolean) =>
  samples.filter(test).length * 2 >= samples.length;

/** Returns why the log cannot be used for a key, or undefined if it can. */
function blindness(context: EvaluationContext, { parallelismInUse }: KeySample): FlowReason | undefined {
  const { attempts, now, settledTo, isLate } = context;
  if (parallelismInUse === undefined) return 'not_reported';
  if (!attempts) return 'log_not_read';
  if (!attempts.isKeyed) return 'log_without_keys';
  if (attempts.isOverLimit || attempts.hasTooManyWaits) return 'too_many_attempts';
  return isLate || now - settledTo > MAX_LAG ? 'log_late' : undefined;
}

export function evaluateKey(evidence: Evidence, context: EvaluationContext): KeyEvaluation {
  const { samples } = evidence;
  const last = samples.at(-1);
  if (!last) throw new RangeError('a key without a read');
  const blind = blindness(context, last);
  const proven = blind ? 0 : ghostSlots(evidence, context.attempts?.lateBy ?? 0);
  const ghosts = proven > 0 || (!blind && isExplained(evidence, context)) ? proven : undefined;
  const drainsIn = last.paused || last.waitlistSize === 0 ? undefined : timeToDrain(samples, context.now);
  const verdict = (state: FlowState, reason: FlowReason) => ({
    state,
    reason,
    ghosts,
    drainsIn: state === 'draining' ? drainsIn : undefined,
  });
  if (last.paused) return verdict('paused', 'paused');
  if (proven > 0) return verdict('ghost_slots', 'slots_claimed');
  if (last.waitlistSize === 0) return verdict('ok', 'nothing_waits');
  if (drainsIn !== undefined) return verdict('draining', 'waitlist_falls');
  return verdict(...stateWithWaiting(evidence, context, blind));
}

function isExplained({ samples }: Evidence, { now }: EvaluationContext): boolean {
  const conclusive = samples.findLast(
    ({ excess = 0, atMost = 1, waiting = 0 }) => excess >= 1 || atMost < 1 || waiting >= 1,
  );
  return conclusive !== undefined && now - conclusive.at <= MAX_LAG && (conclusive.atMost ?? 1) < 1;
}

/** Determines the state of a key that has waiting messages, is neither paused nor draining, and has no proven ghost slots. */
function stateWithWaiting(
  evidence: Evidence,
  context: EvaluationContext,
  blind: FlowReason | undefined,
): [FlowState, FlowReason] {
  const { now, attempts, settledTo } = context;
  const within = evidence.samples.filter(({ at }) => now - at <= WINDOW);
  // If keys are read rarely, use the last reads.
  const recent = within.length < MIN_READS ? evidence.samples.slice(-MIN_READS) : within;
  const [first, last] = [recent[0] as KeySample, recent.at(-1) as KeySample];
  if (recent.length < MIN_READS || last.at - first.at < MIN_DURATION) return ['unknown', 'too_few_reads'];
  if (isMost(recent, isRateUsedUp)) return ['throttled', 'rate_limit'];
  const isFree = recent.every(sample => sample.waitlistSize > 0 && !isFull(sample));
  // The service's numbers suffice: the key has reached no limit.
  if (isFree && last.rateLimit === undefined && last.parallelismInUse !== undefined) return ['starved', 'slots_free'];
  if (blind) return ['unknown', blind];
  const { rateLimit, ratePeriodSeconds = 1 } = last;
  const begun = attempts?.begun(last.key, settledTo - WINDOW, settledTo) ?? 0;
  if (rateLimit !== undefined && begun >= (RATE_SHARE * rateLimit * WINDOW) / (ratePeriodSeconds * 1000)) {
    return ['throttled', 'rate_limit'];
  }
  if (isFree) return ['starved', 'slots_free'];
  if (!isMost(recent, isFull)) return ['ok', 'moving'];
  const compared = evidence.samples.findLast(({ excess }) => excess !== undefined);
  if (!compared || now - compared.at > MAX_LAG) return ['unknown', 'too_few_reads'];
  if ((compared.excess ?? 0) >= 1) return ['unknown', 'not_proven'];
  if ((compared.unexplained ?? 0) >= 1) return ['unknown', 'began_before'];
  if ((compared.waiting ?? 0) >= 1) return ['unknown', 'retries_may_hold'];
  return ['throttled', 'parallelism_limit'];
}
