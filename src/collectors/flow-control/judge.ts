import type { FlowReason, FlowState } from '../../model/flow-state.ts';
import type { Attempts } from './attempts.ts';
import { timeToDrain } from './drain.ts';
import { ghostSlots, type Sample, type Watched } from './evidence.ts';

export interface Verdict {
  readonly state: FlowState;
  readonly reason: FlowReason;
  /** Slots in use that nothing runs in; undefined where that can't be told. */
  readonly ghosts: number | undefined;
  /** Time until the waitlist is empty (ms); undefined unless it drains. */
  readonly drainsIn: number | undefined;
}

/** Inputs of one evaluation. Times: milliseconds since the Unix epoch. */
export interface Moment {
  readonly now: number;
  /** Undefined where the log is not read, or what was read is too old to be shown. */
  readonly attempts: Attempts | undefined;
  /** Until when reads can be compared with the log. */
  readonly settledTo: number;
  /** The log shows nothing new though deliveries go on. */
  readonly isLate: boolean;
}

/** A state that is not told by slots is judged by the reads of so many milliseconds. */
const WINDOW = 120_000;
const SHORTEST = 45_000;
const FEWEST_READS = 3;
/** Share of a rate that must begin so that the rate is what holds the others back. */
const RATE_SHARE = 0.75;
/** What was compared with the log longer ago tells nothing of now, milliseconds. */
const LONGEST_LAG = 420_000;

const isRateUsedUp = ({ rateUsed, rateLimit }: Sample) =>
  rateUsed !== undefined && rateLimit !== undefined && rateUsed >= rateLimit;
const isFull = ({ parallelismInUse, parallelismLimit }: Sample) =>
  parallelismLimit !== undefined && (parallelismInUse ?? 0) >= parallelismLimit;
const isMost = (samples: readonly Sample[], test: (sample: Sample) => boolean) =>
  samples.filter(test).length * 2 >= samples.length;

/** Why the log tells nothing of this key; undefined when it does. */
function blindness(moment: Moment, { parallelismInUse }: Sample): FlowReason | undefined {
  const { attempts, now, settledTo, isLate } = moment;
  if (parallelismInUse === undefined) return 'not_reported';
  if (!attempts) return 'log_not_read';
  if (!attempts.isKeyed) return 'log_without_keys';
  if (attempts.isTooMuch || attempts.isTooMuchWaiting) return 'too_many_attempts';
  return isLate || now - settledTo > LONGEST_LAG ? 'log_late' : undefined;
}

/** The state of a key as of its last read. */
export function judge(watched: Watched, moment: Moment): Verdict {
  const { samples } = watched;
  const last = samples.at(-1);
  if (!last) throw new RangeError('a key without a read');
  const blind = blindness(moment, last);
  const proven = blind ? 0 : ghostSlots(watched, moment.attempts?.lateBy ?? 0);
  const ghosts = proven > 0 || (!blind && isExplained(watched, moment)) ? proven : undefined;
  const drainsIn = last.paused || last.waitlistSize === 0 ? undefined : timeToDrain(samples, moment.now);
  const told = (state: FlowState, reason: FlowReason) => ({
    state,
    reason,
    ghosts,
    drainsIn: state === 'draining' ? drainsIn : undefined,
  });
  if (last.paused) return told('paused', 'paused');
  if (proven > 0) return told('ghost_slots', 'slots_claimed');
  if (last.waitlistSize === 0) return told('ok', 'nothing_waits');
  if (drainsIn !== undefined) return told('draining', 'waitlist_falls');
  return told(...heldBack(watched, moment, blind));
}

const lastCompared = ({ samples }: Watched) => samples.findLast(({ excess }) => excess !== undefined);

/** Whether something was known to hold each slot that was in use, as far as that could last be told. */
function isExplained({ samples }: Watched, { now }: Moment): boolean {
  const telling = samples.findLast(
    ({ excess = 0, atMost = 1, waiting = 0 }) => excess >= 1 || atMost < 1 || waiting >= 1,
  );
  return telling !== undefined && now - telling.at <= LONGEST_LAG && (telling.atMost ?? 1) < 1;
}

/** What holds back the messages that wait. */
function heldBack(watched: Watched, moment: Moment, blind: FlowReason | undefined): [FlowState, FlowReason] {
  const { now, attempts, settledTo } = moment;
  const within = watched.samples.filter(({ at }) => now - at <= WINDOW);
  // Where keys are read seldom, the last reads.
  const recent = within.length < FEWEST_READS ? watched.samples.slice(-FEWEST_READS) : within;
  const [first, last] = [recent[0] as Sample, recent.at(-1) as Sample];
  if (recent.length < FEWEST_READS || last.at - first.at < SHORTEST) return ['unknown', 'too_few_reads'];
  if (isMost(recent, isRateUsedUp)) return ['throttled', 'rate_limit'];
  const isFree = recent.every(sample => sample.waitlistSize > 0 && !isFull(sample));
  // What the service says is enough: no limit of the key holds it back.
  if (isFree && last.rateLimit === undefined && last.parallelismInUse !== undefined) return ['starved', 'slots_free'];
  if (blind) return ['unknown', blind];
  const { rateLimit, ratePeriodSeconds = 1 } = last;
  const begun = attempts?.begun(last.key, settledTo - WINDOW, settledTo) ?? 0;
  if (rateLimit !== undefined && begun >= (RATE_SHARE * rateLimit * WINDOW) / (ratePeriodSeconds * 1000)) {
    return ['throttled', 'rate_limit'];
  }
  if (isFree) return ['starved', 'slots_free'];
  if (!isMost(recent, isFull)) return ['ok', 'moving'];
  const compared = lastCompared(watched);
  if (!compared || now - compared.at > LONGEST_LAG) return ['unknown', 'too_few_reads'];
  if ((compared.excess ?? 0) >= 1) return ['unknown', 'not_proven'];
  if ((compared.unexplained ?? 0) >= 1) return ['unknown', 'began_before'];
  if ((compared.waiting ?? 0) >= 1) return ['unknown', 'retries_may_hold'];
  return ['throttled', 'parallelism_limit'];
}
