import type { FlowReason, FlowState } from '../../model/flow-state.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import type { Attempts } from './attempts.ts';
import { addSample, clear, compare, createEvidence, discard, type Evidence } from './evidence.ts';
import { type EvaluationContext, evaluateKey, type KeyEvaluation } from './verdict.ts';

export interface AuditedKey extends KeyEvaluation {
  /** Start of the state (ms since the Unix epoch). */
  readonly since: number;
}

/** One read of the keys. Times are in milliseconds since the Unix epoch. */
export interface KeysRead {
  /** Times of the request and of the response. */
  readonly from: number;
  readonly now: number;
  readonly entries: readonly FlowControlEntry[];
  /** Whether `entries` contains every key of the service. */
  readonly isComplete: boolean;
  /** Undefined if the log is not read, or its data is withdrawn. */
  readonly attempts: Attempts | undefined;
}

export type Audit = ReturnType<typeof createAudit>;

interface TrackedKey extends Evidence {
  last: FlowControlEntry | undefined;
  shown: AuditedKey | undefined;
  next: { readonly state: FlowState; readonly since: number } | undefined;
}

/** Minimum duration of a state before it is shown (ms), so that keys do not flap. */
const MIN_DURATION = 40_000;
/** Reasons shown immediately, because they are facts or already proven. */
const IMMEDIATE: ReadonlySet<FlowReason> = new Set(['paused', 'slots_claimed']);
/** Time without events after which the log counts as late if keys change (ms). */
const LATE = 240_000;
/** Maximum time after the newest event at which a key change may be an effect of that event (ms). */
const AT_REST = 30_000;
/** Age at which events are assumed to be listed if keys do not change (ms). */
const LISTED = 120_000;
/** Time for which reads are kept (ms). */
const KEPT_FOR = 3_600_000;
/** Longest gap between two reads that is assumed to hide no change (ms). */
const MAX_READ_GAP = 150_000;
const SAVE_EVERY = 60_000;

/** Maximum number of keys evaluated per read, to bound how long the event loop is blocked. */
const MAX_EVALUATED = 2000;
const UNREAD = { last: undefined, shown: undefined, next: undefined };

type StoredAudit = readonly (readonly [key: string, unseen: number | null, knownFrom: number])[];

const isIdle = ({ waitlistSize, parallelismInUse, paused }: FlowControlEntry) =>
  waitlistSize === 0 && !parallelismInUse && !paused;
const TOO_MANY: KeyEvaluation = { state: 'unknown', reason: 'too_many_keys', ghosts: undefined, drainsIn: undefined };

/** `isForced`: evaluate keys even if the service reports no parallelism. `stored`: the row of an earlier process. */
export function createAudit(isForced: boolean, stored?: string) {
  const known = new Map<string, TrackedKey>();
  for (const [key, unseen, knownFrom] of stored === undefined ? [] : (JSON.parse(stored) as StoredAudit)) {
    const evidence = { ...createEvidence(knownFrom, false), unseen: unseen ?? undefined };
    known.set(key, { ...evidence, unseenEnds: Number.POSITIVE_INFINITY, ...UNREAD });
  }
  let wasComplete = false;
  let readAt = 0;
  let saved = { at: Number.NEGATIVE_INFINITY, row: stored };
  let changedAt = 0;
  const reads: { readonly from: number; readonly to: number; readonly isChange: boolean }[] = [];
  /** End of the last evaluated silence. */
  let silentTo = 0;

  function recordChanges({ now, entries }: KeysRead): void {
    let listed = 0;
    for (const { key, waitlistSize, parallelismInUse, rateUsed } of entries) {
      const before = known.get(key)?.last;
      if (before) listed += 1;
      const isSame = waitlistSize === before?.waitlistSize && parallelismInUse === before.parallelismInUse;
      if (!isSame || rateUsed !== before.rateUsed) changedAt = now;
    }
    if (listed < known.size) changedAt = now;
    reads.push({ from: readAt, to: now, isChange: changedAt === now });
    while (reads[0] && now - reads[0].to > KEPT_FOR) reads.shift();
  }

  /** Discards evidence up to the end of a silence, which may hide lost events. Keeps it if reads show that no key changed. */
  function handleSilence({ now, attempts }: KeysRead): void {
    const { silence } = attempts ?? {};
    if (!silence || silence.to <= silentTo) return;
    const { from, to } = silence;
    silentTo = to;
    const within = reads.filter(read => read.to > from && read.from < to);
    const isWatched =
      (within[0]?.from ?? now) <= from + MAX_READ_GAP && within.every(read => read.to - read.from <= MAX_READ_GAP);
    const isChanging = within.some(read => read.isChange && read.from >= from && read.to <= to);
    if (isWatched && !isChanging) return;
    for (const key of known.values()) discard(key, to);
  }

  function contextOf({ now, attempts }: KeysRead): EvaluationContext {
    if (!attempts) return { now, attempts, settledTo: 0, isLate: false };
    const { newest, readTo, settledTo } = attempts;
    // A log without new events is complete if keys do not change either, else delayed.
    const isAtRest = changedAt <= newest + AT_REST;
    const isListed = isAtRest && now - newest > LISTED;
    return {
      now,
      attempts,
      settledTo: isListed ? Math.max(settledTo, readTo - LISTED) : settledTo,
      isLate: !isAtRest && now - newest > LATE,
    };
  }

  function evaluateIdle(key: TrackedKey, { parallelismInUse }: FlowControlEntry, now: number): AuditedKey {
    // An idle key has no unseen attempts.
    clear(key);
    const since = key.shown?.state === 'ok' ? key.shown.since : now;
    // No ghost slots, or unknown if the service reports no parallelism.
    return { state: 'ok', reason: 'nothing_waits', ghosts: parallelismInUse, drainsIn: undefined, since };
  }

  function show(key: TrackedKey, verdict: KeyEvaluation, now: number): AuditedKey {
    const { shown } = key;
    const isNew = shown?.state !== verdict.state;
    if (!isNew) key.next = undefined;
    else if (key.next?.state !== verdict.state) key.next = { state: verdict.state, since: now };
    const since = key.next?.since ?? shown?.since ?? now;
    const isDelayed = shown && isNew && !IMMEDIATE.has(verdict.reason) && now - since < MIN_DURATION;
    if (isDelayed) {
      // The old state is shown, but the number of ghost slots may have changed.
      const ghosts = shown.state === 'ghost_slots' ? (verdict.ghosts ?? shown.ghosts) : verdict.ghosts;
      return { ...shown, ghosts, drainsIn: undefined };
    }
    key.next = undefined;
    return { ...verdict, since: isNew ? since : (shown?.since ?? now) };
  }

  function keyOf(name: string, attempts: Attempts | undefined): TrackedKey {
    const found = known.get(name);
    if (found) return found;
    const isNew = wasComplete && attempts !== undefined && readAt > attempts.since;
    const evidence = createEvidence(attempts?.since ?? 0, isNew);
    // Earlier ends without a start do not matter.
    const created = { ...evidence, ...UNREAD, unseenEnds: attempts?.unseen(name) ?? 0 };
    known.set(name, created);
    return created;
  }

  return {
    /** Evaluates all keys of a read. Returns undefined if the service reports no parallelism, unless `isForced`. */
    evaluate(read: KeysRead): ReadonlyMap<string, AuditedKey> | undefined {
      const { now, entries, attempts, isComplete } = read;
      if (!isForced && entries.every(({ parallelismInUse }) => parallelismInUse === undefined)) return undefined;
      recordChanges(read);
      handleSilence(read);
      const context = contextOf(read);
      const audited = new Map<string, AuditedKey>();
      let evaluated = 0;
      for (const entry of entries) {
        const key = keyOf(entry.key, attempts);
        key.last = entry;
        if (isIdle(entry)) {
          key.shown = evaluateIdle(key, entry, now);
        } else if (evaluated < MAX_EVALUATED) {
          evaluated += 1;
          addSample(key, entry, read);
          if (attempts) compare(key, attempts, context.settledTo);
          key.shown = show(key, evaluateKey(key, context), now);
        } else key.shown = { ...TOO_MANY, since: now };
        audited.set(entry.key, key.shown);
      }
      for (const name of known.keys()) if (!audited.has(name)) known.delete(name);
      [wasComplete, readAt] = [isComplete, now];
      return audited;
    },
    /** Returns the row for the next process, at most once a minute and only if changed. */
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
