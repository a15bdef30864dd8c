import type { FlowControlEntry } from '../../model/message.ts';
import type { Attempts } from './attempts.ts';
import { MAX_WAIT } from './waits.ts';

export interface KeySample extends FlowControlEntry {
  /** Times of the request and of the response (ms since the Unix epoch). */
  readonly from: number;
  readonly at: number;
  /** Minimum number of ghost slots; below 1 if there may be none. Undefined until the log is settled up to `at`. */
  excess?: number;
  /** Maximum number of slots in use without a logged attempt. */
  atMost?: number;
  /** Slots in use without a logged attempt. Their attempts may have started before the first read of the log. */
  unexplained?: number;
  /** Slots in use that messages waiting for a retry may hold. */
  waiting?: number;
}

export interface Evidence {
  readonly samples: KeySample[];
  /** Upper bound of running attempts without a logged start. Undefined before the first comparison. */
  unseen: number | undefined;
  /** Start of tracking: every attempt that starts later is tracked. */
  knownFrom: number;
  /** Number of ends without a logged start at the last comparison. */
  unseenEnds: number;
  /** Consecutive reads with ghost slots. */
  run: { readonly since: number; last: number; reads: number } | undefined;
  /** Proven ghost slots that may still exist. */
  proven: number;
}

/** Tolerated clock skew between agent and service (ms). */
const SKEW = 5000;
const MAX_SAMPLES = 80;
/** Time for which samples are kept (ms). */
const KEPT_FOR = 900_000;
/** Minimum time between samples (ms). Of more frequent reads, only the newest is kept. */
const MIN_DISTANCE = 9000;
/** Maximum pause between reads with ghost slots (ms). A longer pause ends the run. */
const MAX_PAUSE = 120_000;
/** Minimum duration of a run of reads that proves ghost slots (ms). */
export const PROOF = 270_000;
/** Minimum number of reads in a run that proves ghost slots. */
const MIN_READS = 4;

/** `isNew`: the previous complete read did not list the key, so it has no unseen attempts. */
export const createEvidence = (knownFrom: number, isNew: boolean): Evidence => ({
  samples: [],
  unseen: isNew ? 0 : undefined,
  knownFrom,
  unseenEnds: 0,
  run: undefined,
  proven: 0,
});

export function clear(evidence: Evidence): void {
  evidence.samples.length = 0;
  evidence.run = undefined;
  evidence.proven = 0;
  evidence.unseen = 0;
}

export function addSample({ samples }: Evidence, entry: FlowControlEntry, read: { from: number; now: number }): void {
  const { from, now: at } = read;
  const before = samples.at(-2);
  // The newest read is always kept. It replaces the previous sample if that came too soon after its predecessor and was not compared.
  if (before && at - before.at < MIN_DISTANCE && samples.at(-1)?.excess === undefined) samples.pop();
  samples.push({ ...entry, from, at });
  while (samples.length > MAX_SAMPLES || (samples[0] && at - samples[0].at > KEPT_FOR)) samples.shift();
}

/**
 * Compares the reads of a key with the settled part of the log. Slots that messages waiting for a retry may hold never count as
 * excess: the service does not document whether these messages keep their slots.
 */
export function compare(evidence: Evidence, attempts: Attempts, settledTo: number): void {
  handleLoss(evidence, attempts);
  const slots = Math.max(
    ...evidence.samples.map(({ parallelismInUse = 0, parallelismLimit = Number.POSITIVE_INFINITY }) =>
      Math.max(parallelismInUse, parallelismLimit),
    ),
  );
  for (const sample of evidence.samples) {
    const { key, from, at, parallelismInUse: inUse, paused } = sample;
    if (sample.excess !== undefined || inUse === undefined || from - SKEW < evidence.knownFrom) continue;
    if (at + SKEW > settledTo) break;
    // The number of waiting messages is unknown.
    if (attempts.hasTooManyWaits) continue;
    const running = attempts.running(key, from - SKEW, at + SKEW);
    const claimed = attempts.claimed(key, from - SKEW, at + SKEW);
    // Logged and unseen attempts together never exceed the number of slots.
    sample.atMost = Math.max(0, Math.min(inUse - running.min, slots - running.max));
    // After MAX_WAIT, every earlier message has had an event, unless the key is paused.
    const isLong = !paused && at - evidence.knownFrom > MAX_WAIT;
    evidence.unseen = isLong ? 0 : Math.min(evidence.unseen ?? Number.POSITIVE_INFINITY, sample.atMost);
    sample.unexplained = inUse - claimed.max;
    sample.excess = sample.unexplained - evidence.unseen;
    sample.waiting = Math.max(0, Math.min(inUse, claimed.max) - running.max);
    extendRun(evidence, sample);
  }
}

/** If the log lost events, discards the evidence from before the loss. */
function handleLoss(evidence: Evidence, attempts: Attempts): void {
  const key = evidence.samples.at(-1)?.key ?? '';
  const ends = attempts.unseen(key);
  const isLost = evidence.unseen === 0 && ends > evidence.unseenEnds;
  evidence.unseenEnds = ends;
  if (!isLost && evidence.knownFrom >= attempts.since) return;
  discard(evidence, Math.max(attempts.since, isLost ? attempts.settledTo : 0));
}

function extendRun(evidence: Evidence, { at, excess = 0, atMost = 0 }: KeySample): void {
  const { run, samples } = evidence;
  evidence.proven = Math.min(evidence.proven, atMost);
  // If keys are read rarely, allow longer pauses.
  const before = samples.filter(sample => sample.at < at);
  const every = (at - (before[0]?.at ?? at)) / Math.max(1, before.length);
  if (run && (atMost < 1 || at - run.last > Math.max(MAX_PAUSE, 2.5 * every))) evidence.run = undefined;
  if (excess < 1) return;
  evidence.run ??= { since: at, last: at, reads: 0 };
  evidence.run.last = at;
  evidence.run.reads += 1;
}

/** Discards evidence from before `until`, because the attempts running at that time are unknown. */
export function discard(evidence: Evidence, until: number): void {
  if (until <= evidence.knownFrom) return;
  evidence.knownFrom = until;
  evidence.unseen = undefined;
  evidence.run = undefined;
  evidence.proven = 0;
}

/**
 * Returns the number of proven ghost slots: slots in use for a long time without an attempt while messages waited. They stay
 * proven until a read shows fewer.
 */
export function ghostSlots(evidence: Evidence, lateBy: number): number {
  evidence.proven = Math.max(evidence.proven, provenNow(evidence, lateBy));
  return evidence.proven;
}

function provenNow({ run, samples }: Evidence, lateBy: number): number {
  if (!run || run.last - run.since < PROOF + lateBy || run.reads < MIN_READS) return 0;
  const evidence = samples.filter(({ at, excess = 0 }) => excess >= 1 && at >= run.since && at >= run.last - PROOF);
  if (!evidence.some(({ waitlistSize }) => waitlistSize > 0)) return 0;
  return Math.min(...evidence.map(({ excess = 0 }) => excess));
}
