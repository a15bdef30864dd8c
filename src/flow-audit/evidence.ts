import type { FlowControlEntry } from '../model/message.ts';
import { type Attempts, type Extent, LONGEST_ATTEMPT } from './attempts.ts';
import { createRetrySlots, type RetrySlots } from './retry-slots.ts';

/** One read of a key. */
export interface Sample extends FlowControlEntry {
  /** When it was asked for, and when it was answered, milliseconds since the Unix epoch. */
  readonly from: number;
  readonly at: number;
  /** Slots in use that no attempt explains; undefined until the log is settled there. Below one where there are none. */
  excess?: number;
  /** No more slots than this can be in use without an attempt. */
  atMost?: number;
  /** Slots in use for which the log shows no attempt, even where one from before it was followed may run in it. */
  unexplained?: number;
  /** Slots in use that messages hold which wait for a retry; or that they may hold, while that is not known. */
  waiting?: number;
}

/** A read at which it is certain how many attempts ran, and how many messages waited for a retry. */
interface Exact {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** How long each message was to wait, milliseconds, the shortest first. */
  readonly waiting: readonly number[];
  /** Slots in use without an attempt. */
  readonly excess: number;
}

/** What is known of one key. Changed in place. */
export interface Watched {
  readonly samples: Sample[];
  /** At most as many attempts run that the log did not show beginning. Undefined until a read tells. */
  unseen: number | undefined;
  /** Every attempt that began later is known. */
  knownFrom: number;
  /** How many ends without a beginning the log had shown. */
  unseenEnds: number;
  /** Reads one after the other, all with slots that nothing runs in. */
  run: { readonly since: number; last: number; reads: number } | undefined;
  /** Slots that were proven to be ghosts and may be still. */
  proven: number;
  /** When the log last showed more attempts than slots in use, milliseconds since the Unix epoch: one of both is wrong. */
  shortAt: number;
  /** The last such read. */
  exact: Exact | undefined;
  /** A read at which nothing was in use, to be compared with the log once that is settled. */
  idle: Sample | undefined;
}

/** How far the clocks of agent and service may differ, milliseconds; more only delays a finding. */
const SKEW = 5000;
/** A wait that ends meanwhile and one that begins are both left out, milliseconds. */
const SLICE = 2500;
/** Samples of a key, and how long one is of use, milliseconds. */
const MOST_SAMPLES = 80;
const KEPT = 900_000;
/** Reads that follow each other faster are not kept apart, milliseconds. */
const CLOSEST = 9000;
/** Without evidence for so long, milliseconds, there is none. */
const LONGEST_PAUSE = 120_000;
/** How long slots must be in use without an attempt until that is told, milliseconds, and in how many reads. */
export const PROOF = 270_000;
const FEWEST_READS = 4;

/** `isNew`: it was not listed in the read before, when nothing was left out: nothing can have run on it. */
export const createWatched = (knownFrom: number, isNew: boolean): Watched => ({
  samples: [],
  unseen: isNew ? 0 : undefined,
  knownFrom,
  unseenEnds: 0,
  run: undefined,
  proven: 0,
  shortAt: Number.NEGATIVE_INFINITY,
  exact: undefined,
  idle: undefined,
});

/** Nothing of it is in use. */
export function clear(watched: Watched): void {
  watched.samples.length = 0;
  watched.run = undefined;
  watched.proven = 0;
  watched.unseen = 0;
}

export function addSample({ samples }: Watched, entry: FlowControlEntry, read: { from: number; now: number }): void {
  const { from, now: at } = read;
  const before = samples.at(-2);
  // The newest read stands last, however soon it came.
  if (before && at - before.at < CLOSEST && samples.at(-1)?.excess === undefined) samples.pop();
  samples.push({ ...entry, from, at });
  while (samples.length > MOST_SAMPLES || (samples[0] && at - samples[0].at > KEPT)) samples.shift();
}

/** Compares the reads of a key with the log, as far as that is settled. Whether what was known of retries is withdrawn. */
export function compare(
  watched: Watched,
  attempts: Attempts,
  settledTo: number,
  retries: RetrySlots = createRetrySlots(),
): boolean {
  noticeLoss(watched, attempts);
  let isWithdrawn = false;
  const slots = Math.max(
    ...watched.samples.map(({ parallelismInUse = 0, parallelismLimit = Number.POSITIVE_INFINITY }) =>
      Math.max(parallelismInUse, parallelismLimit),
    ),
  );
  for (const sample of watched.samples) {
    const { from, at, parallelismInUse: inUse } = sample;
    if (sample.excess !== undefined || inUse === undefined || from - SKEW < watched.knownFrom) continue;
    if (at + SKEW > settledTo) break;
    // How many messages wait is not known, and may matter.
    if (attempts.isTooMuchWaiting && retries.known !== 'released') continue;
    const log = logAt(sample, attempts);
    isWithdrawn = learn(watched, { ...sample, slots }, log, retries) || isWithdrawn;
    // What is not known counts for whichever leaves fewer ghost slots.
    const isReleased = retries.known === 'released';
    const most = isReleased ? log.running.most + heldBriefly(watched, inUse, log, retries) : log.claimed.most;
    const held = retries.known === 'kept' ? log.claimed : log.running;
    // Attempts that the log shows and those that it does not show are never more than there are slots.
    sample.atMost = Math.max(0, Math.min(inUse - held.fewest, slots - held.most));
    // How long a message keeps a slot through all its retries has no bound.
    const isLong = retries.known === 'released' && at - watched.knownFrom > LONGEST_ATTEMPT;
    watched.unseen = isLong ? 0 : Math.min(watched.unseen ?? Number.POSITIVE_INFINITY, sample.atMost);
    sample.unexplained = inUse - most;
    sample.excess = sample.unexplained - watched.unseen;
    sample.waiting = Math.max(0, Math.min(inUse, most) - log.running.most);
    follow(watched, sample);
  }
  return isWithdrawn;
}

/** How many messages may hold slots until a retry, where longer waits are proven to hold none. */
function heldBriefly({ knownFrom }: Watched, inUse: number, log: LogAt, { releasedFrom }: RetrySlots): number {
  if (log.waitingBriefly(releasedFrom) === 0) return 0;
  // More wait than there are slots in use: on this key the longest of them hold none.
  const delay = log.beyond(inUse, knownFrom, true) ?? releasedFrom;
  return log.waitingBriefly(Math.min(delay, releasedFrom));
}

/** Learns of retries from a read at which nothing was in use. Whether what was known of them is withdrawn. */
export function compareIdle(watched: Watched, attempts: Attempts, settledTo: number, retries: RetrySlots): boolean {
  const sample = watched.idle;
  if (!sample || sample.at + SKEW > settledTo) return false;
  watched.idle = undefined;
  if (sample.from - SKEW < Math.max(watched.knownFrom, attempts.since)) return false;
  const slots = sample.parallelismLimit ?? Number.POSITIVE_INFINITY;
  return learn(watched, { ...sample, slots }, logAt(sample, attempts), retries);
}

interface LogAt {
  readonly running: Extent;
  readonly claimed: Extent;
  /** Attempts that began. */
  readonly begun: number;
  /** As those of the attempts. */
  waiting(newerThan: number): readonly number[];
  waitingBriefly(shorterThan: number): number;
  /**
   * More than so many messages waited at any time of the span, of those whose wait began at `newerThan` or later, even if those
   * that were to wait for longer than this are left out, milliseconds. Undefined where there were not so many.
   */
  beyond(slots: number, newerThan: number, isOverdueToo?: boolean): number | undefined;
}

/** What the log shows of the time of a read. */
function logAt({ key, from, at, paused, rateLimit }: Sample, attempts: Attempts): LogAt {
  // One that has its slot begins when it is due, unless something else holds it back.
  const overdue = paused || rateLimit !== undefined ? Number.POSITIVE_INFINITY : SKEW;
  const [first, last] = [from - SKEW, at + SKEW];
  return {
    running: attempts.running(key, first, last),
    claimed: attempts.claimed(key, first, last),
    // Spans are told in steps of five seconds: these are within the others.
    begun: attempts.begun(key, from, at),
    waiting: newerThan => attempts.waiting(key, { from: first, to: last, newerThan }),
    beyond(slots, newerThan, isOverdueToo = false) {
      let delay = 0;
      for (let time = first; time < last && Number.isFinite(delay); time += SLICE) {
        const to = Math.min(last, time + SLICE);
        const waits = attempts.waiting(key, { from: time, to, newerThan, isOverdueToo });
        delay = Math.max(delay, waits[slots] ?? Number.POSITIVE_INFINITY);
      }
      return Number.isFinite(delay) ? delay : undefined;
    },
    waitingBriefly: shorterThan => attempts.waitingBriefly(key, { from: first, to: last, shorterThan, overdue }),
  };
}

/**
 * Fewer slots are in use than messages wait, or as many messages wait as there are slots and others begin: they keep none. Or
 * one read shows other waits than the one before: do the slots without an attempt change with them?
 */
function learn(watched: Watched, sample: Sample & { slots: number }, log: LogAt, retries: RetrySlots): boolean {
  const { at, parallelismInUse: inUse, parallelismLimit, slots: most } = sample;
  // A key without a limit needs no slots.
  if (inUse === undefined || parallelismLimit === undefined) return false;
  const { running, claimed, begun } = log;
  if (inUse < running.fewest) watched.shortAt = at;
  if (at - watched.shortAt < KEPT) return false;
  // Attempts are not counted: one whose end the log lost would be a proof.
  const newerThan = Math.max(watched.knownFrom, retries.at);
  // Those that wait for longest keep none: at most as many keep one as there are slots for.
  const delay = log.beyond(inUse, newerThan) ?? (begun > 0 ? log.beyond(most - 1, newerThan) : undefined);
  if (delay !== undefined) return retries.take('released', at + SKEW, delay);
  const waiting = log.waiting(0);
  const isExact = running.most === running.fewest && claimed.most === claimed.fewest;
  if (!isExact || claimed.most !== running.most + waiting.length) return false;
  const { exact } = watched;
  watched.exact = { at, waiting, excess: inUse - running.most };
  if (!exact || exact.at < retries.at || at - exact.at > LONGEST_PAUSE) return false;
  const [waits, slots] = [waiting.length - exact.waiting.length, watched.exact.excess - exact.excess];
  if (waits !== 0 && slots === waits) {
    const [shortest = Number.POSITIVE_INFINITY] = waiting;
    return retries.take('kept', at + SKEW, Math.min(shortest, exact.waiting[0] ?? shortest));
  }
  // When a wait ends, a slot may have been taken from it before; and what the log did not show may have ended meanwhile.
  const longest = waits > 0 && slots === 0 && watched.unseen === 0 ? log.waiting(exact.at).at(-1) : undefined;
  return longest !== undefined && retries.take('released', at + SKEW, longest);
}

/** Where the log lost something, what ran then is not known. */
function noticeLoss(watched: Watched, attempts: Attempts): void {
  const key = watched.samples.at(-1)?.key ?? '';
  const ends = attempts.unseen(key);
  const isLost = watched.unseen === 0 && ends > watched.unseenEnds;
  watched.unseenEnds = ends;
  if (!isLost && watched.knownFrom >= attempts.since) return;
  forget(watched, Math.max(attempts.since, isLost ? attempts.settledTo : 0));
}

function follow(watched: Watched, { at, excess = 0, atMost = 0 }: Sample): void {
  const { run, samples } = watched;
  watched.proven = Math.min(watched.proven, atMost);
  // Where keys are read seldom, it may be longer.
  const before = samples.filter(sample => sample.at < at);
  const every = (at - (before[0]?.at ?? at)) / Math.max(1, before.length);
  if (run && (atMost < 1 || at - run.last > Math.max(LONGEST_PAUSE, 2.5 * every))) watched.run = undefined;
  if (excess < 1) return;
  watched.run ??= { since: at, last: at, reads: 0 };
  watched.run.last = at;
  watched.run.reads += 1;
}

/** The log lost what happened until then: what ran at that time is not known. */
export function forget(watched: Watched, until: number): void {
  if (until <= watched.knownFrom) return;
  watched.knownFrom = until;
  watched.unseen = undefined;
  watched.run = undefined;
  watched.proven = 0;
  watched.exact = undefined;
}

/**
 * Slots that were in use without an attempt for long enough while messages waited, until reads tell that they are not; 0 where
 * there are none.
 */
export function ghostSlots(watched: Watched, lateBy: number): number {
  watched.proven = Math.max(watched.proven, provenNow(watched, lateBy));
  return watched.proven;
}

function provenNow({ run, samples }: Watched, lateBy: number): number {
  if (!run || run.last - run.since < PROOF + lateBy || run.reads < FEWEST_READS) return 0;
  const evidence = samples.filter(({ at, excess = 0 }) => excess >= 1 && at >= run.since && at >= run.last - PROOF);
  if (!evidence.some(({ waitlistSize }) => waitlistSize > 0)) return 0;
  return Math.min(...evidence.map(({ excess = 0 }) => excess));
}
