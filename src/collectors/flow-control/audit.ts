import type { FlowReason, FlowState } from '../../model/flow-state.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import type { Attempts } from './attempts.ts';
import { addSample, clear, compare, createWatched, forget, type Watched } from './evidence.ts';
import { judge, type Moment, type Verdict } from './judge.ts';

/** Times: milliseconds since the Unix epoch. */
export interface AuditedKey extends Verdict {
  readonly since: number;
}

/** One read of the keys. Times: milliseconds since the Unix epoch. */
export interface KeysRead {
  /** When it was asked for, and when it was answered. */
  readonly from: number;
  readonly now: number;
  readonly entries: readonly FlowControlEntry[];
  /** Every key that the service has is among them. */
  readonly isWhole: boolean;
  /** Undefined where the log is not read, or what was read is too old to be shown. */
  readonly attempts: Attempts | undefined;
}

/** Judges the flow-control keys of an account at each read. */
export type Audit = ReturnType<typeof createAudit>;

interface Known extends Watched {
  last: FlowControlEntry | undefined;
  shown: AuditedKey | undefined;
  next: { readonly state: FlowState; readonly since: number } | undefined;
}

/** A state must last for so long until it is shown, milliseconds, so that a key between two of them does not flap. */
const HOLD = 40_000;
/** These are facts, or proven already. */
const AT_ONCE: ReadonlySet<FlowReason> = new Set(['paused', 'slots_claimed']);
/** Without a new event for so long, milliseconds, the log is late, unless nothing moves. */
const LATE = 240_000;
/** What moved at most so long after the newest event, milliseconds, may be what that tells. */
const AT_REST = 30_000;
/** After so long, milliseconds, a read of the log that found nothing tells that nothing happened. */
const LISTED = 120_000;
/** How long reads are remembered, and how long may be between two, so that nothing goes unnoticed, milliseconds. */
const REMEMBERED = 3_600_000;
const UNWATCHED = 150_000;
const SAVE_EVERY = 60_000;

/** As many keys are judged at a time: more would hold up everything else in the process. */
const MOST_JUDGED = 2000;
const UNREAD = { last: undefined, shown: undefined, next: undefined };

/** Key, attempts that may run unseen, and the time from which all are known. */
type StoredAudit = readonly (readonly [key: string, unseen: number | null, knownFrom: number])[];

const isIdle = ({ waitlistSize, parallelismInUse, paused }: FlowControlEntry) =>
  waitlistSize === 0 && !parallelismInUse && !paused;
/** Where its slots are not reported, nothing is known of them, either. */
const idle = ({ parallelismInUse: ghosts }: FlowControlEntry): Verdict => ({
  state: 'ok',
  reason: 'nothing_waits',
  ghosts,
  drainsIn: undefined,
});
const TOO_MANY: Verdict = { state: 'unknown', reason: 'too_many_keys', ghosts: undefined, drainsIn: undefined };

/** `isForced`: also if the service reports no parallelism. `stored`: the row of an earlier process. */
export function createAudit(isForced: boolean, stored?: string) {
  const known = new Map<string, Known>();
  for (const [key, unseen, knownFrom] of stored === undefined ? [] : (JSON.parse(stored) as StoredAudit)) {
    const watched = { ...createWatched(knownFrom, false), unseen: unseen ?? undefined };
    known.set(key, { ...watched, unseenEnds: Number.POSITIVE_INFINITY, ...UNREAD });
  }
  let wasWhole = false;
  let readAt = 0;
  let saved = { at: Number.NEGATIVE_INFINITY, row: stored };
  let movedAt = 0;
  const reads: { readonly from: number; readonly to: number; readonly isMove: boolean }[] = [];
  let heardTo = 0;

  /** When anything of any key was last seen to change. */
  function noticeMoves({ now, entries }: KeysRead): void {
    let listed = 0;
    for (const { key, waitlistSize, parallelismInUse, rateUsed } of entries) {
      const before = known.get(key)?.last;
      if (before) listed += 1;
      const isSame = waitlistSize === before?.waitlistSize && parallelismInUse === before.parallelismInUse;
      if (!isSame || rateUsed !== before.rateUsed) movedAt = now;
    }
    if (listed < known.size) movedAt = now;
    reads.push({ from: readAt, to: now, isMove: movedAt === now });
    while (reads[0] && now - reads[0].to > REMEMBERED) reads.shift();
  }

  /** Deliveries went on, or may have, while the log showed nothing for long: it lost them. */
  function noticeSilence({ now, attempts }: KeysRead): void {
    const { silence } = attempts ?? {};
    if (!silence || silence.to <= heardTo) return;
    const { from, to } = silence;
    heardTo = to;
    const within = reads.filter(read => read.to > from && read.from < to);
    const isWatched =
      (within[0]?.from ?? now) <= from + UNWATCHED && within.every(read => read.to - read.from <= UNWATCHED);
    const isMoving = within.some(read => read.isMove && read.from >= from && read.to <= to);
    if (isWatched && !isMoving) return;
    for (const key of known.values()) forget(key, to);
  }

  function momentOf({ now, attempts }: KeysRead): Moment {
    if (!attempts) return { now, attempts, settledTo: 0, isLate: false };
    const { newest, readTo, settledTo } = attempts;
    // A log that shows nothing new is complete, or held back. Where nothing moves there is nothing to show.
    const isAtRest = movedAt <= newest + AT_REST;
    const isListed = isAtRest && now - newest > LISTED;
    return {
      now,
      attempts,
      settledTo: isListed ? Math.max(settledTo, readTo - LISTED) : settledTo,
      isLate: !isAtRest && now - newest > LATE,
    };
  }

  function rest(key: Known, entry: FlowControlEntry, now: number): AuditedKey {
    // Nothing runs, so nothing runs unseen.
    clear(key);
    return { ...idle(entry), since: key.shown?.state === 'ok' ? key.shown.since : now };
  }

  function show(key: Known, verdict: Verdict, now: number): AuditedKey {
    const { shown } = key;
    const isNews = shown?.state !== verdict.state;
    if (!isNews) key.next = undefined;
    else if (key.next?.state !== verdict.state) key.next = { state: verdict.state, since: now };
    const since = key.next?.since ?? shown?.since ?? now;
    const isHeld = shown && isNews && !AT_ONCE.has(verdict.reason) && now - since < HOLD;
    if (isHeld) {
      // What was proven is not proven any more.
      const ghosts = shown.state === 'ghost_slots' ? (verdict.ghosts ?? shown.ghosts) : verdict.ghosts;
      return { ...shown, ghosts, drainsIn: undefined };
    }
    key.next = undefined;
    return { ...verdict, since: isNews ? since : (shown?.since ?? now) };
  }

  function keyOf(name: string, attempts: Attempts | undefined): Known {
    const found = known.get(name);
    if (found) return found;
    const isNew = wasWhole && attempts !== undefined && readAt > attempts.since;
    const made = { ...createWatched(attempts?.since ?? 0, isNew), ...UNREAD };
    // What the log lost before is no loss of this key.
    const created = { ...made, unseenEnds: attempts?.unseen(name) ?? 0 };
    known.set(name, created);
    return created;
  }

  return {
    /** By key. Undefined where the service tells no parallelism of any, unless it is forced. */
    judge(read: KeysRead): ReadonlyMap<string, AuditedKey> | undefined {
      const { now, entries, attempts, isWhole } = read;
      if (!isForced && entries.every(({ parallelismInUse }) => parallelismInUse === undefined)) return undefined;
      noticeMoves(read);
      noticeSilence(read);
      const moment = momentOf(read);
      const audited = new Map<string, AuditedKey>();
      let judged = 0;
      for (const entry of entries) {
        const key = keyOf(entry.key, attempts);
        key.last = entry;
        if (isIdle(entry)) {
          key.shown = rest(key, entry, now);
        } else if (judged < MOST_JUDGED) {
          judged += 1;
          addSample(key, entry, read);
          if (attempts) compare(key, attempts, moment.settledTo);
          key.shown = show(key, judge(key, moment), now);
        } else key.shown = { ...TOO_MANY, since: now };
        audited.set(entry.key, key.shown);
      }
      for (const name of known.keys()) if (!audited.has(name)) known.delete(name);
      [wasWhole, readAt] = [isWhole, now];
      return audited;
    },
    /** Returns the row for the next process if it changed; once a minute of reading, else undefined. */
    row(): string | undefined {
      if (readAt - saved.at < SAVE_EVERY) return undefined;
      const stored: StoredAudit = [...known].map(([key, { unseen, knownFrom }]) => [key, unseen ?? null, knownFrom]);
      const row = JSON.stringify(stored);
      const isSame = row === saved.row;
      saved = { at: readAt, row };
      return isSame ? undefined : row;
    },
  };
}
