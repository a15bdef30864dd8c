import type { FlowControlEntry } from '../../model/message.ts';
import type { Attempts } from './attempts.ts';
import { LONGEST_WAIT } from './waits.ts';

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
  /** Slots in use that messages waiting for a retry may hold. */
  waiting?: number;
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
}

/** How far the clocks of agent and service may differ, milliseconds; more only delays a finding. */
const SKEW = 5000;
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
});

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

/**
 * Compares the reads of a key with the log, as far as that is settled. The service does not document whether a message that waits for
 * a retry keeps its slot: slots that such messages may hold are never in excess.
 */
export function compare(watched: Watched, attempts: Attempts, settledTo: number): void {
  noticeLoss(watched, attempts);
  const slots = Math.max(
    ...watched.samples.map(({ parallelismInUse = 0, parallelismLimit = Number.POSITIVE_INFINITY }) =>
      Math.max(parallelismInUse, parallelismLimit),
    ),
  );
  for (const sample of watched.samples) {
    const { key, from, at, parallelismInUse: inUse, paused } = sample;
    if (sample.excess !== undefined || inUse === undefined || from - SKEW < watched.knownFrom) continue;
    if (at + SKEW > settledTo) break;
    // How many messages wait is not known, and may matter.
    if (attempts.isTooMuchWaiting) continue;
    const running = attempts.running(key, from - SKEW, at + SKEW);
    const claimed = attempts.claimed(key, from - SKEW, at + SKEW);
    // Attempts that the log shows and those that it does not show are never more than there are slots.
    sample.atMost = Math.max(0, Math.min(inUse - running.fewest, slots - running.most));
    // By then each message from before has had an event, unless a pause holds it back.
    const isLong = !paused && at - watched.knownFrom > LONGEST_WAIT;
    watched.unseen = isLong ? 0 : Math.min(watched.unseen ?? Number.POSITIVE_INFINITY, sample.atMost);
    sample.unexplained = inUse - claimed.most;
    sample.excess = sample.unexplained - watched.unseen;
    sample.waiting = Math.max(0, Math.min(inUse, claimed.most) - running.most);
    follow(watched, sample);
  }
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
