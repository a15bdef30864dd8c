import { EVENT_STATES, type EventState } from '../../model/message.ts';
import type { KeptEvent } from '../events/kept-event.ts';
import { AttemptTimeline, BUCKET, bucketOf } from './timeline.ts';
import { createWaits } from './waits.ts';

export type AttemptEvent = Pick<KeptEvent, 'message' | 'state' | 'time'> &
  Partial<Pick<KeptEvent, 'dueAt' | 'flowKey'>>;

export interface RunningBounds {
  readonly max: number;
  readonly min: number;
}

/** Longest duration of an attempt that the service allows (ms). Attempts that have no end by then are dropped. */
const MAX_DURATION = 12 * 3_600_000;
/** Maximum numbers of tracked attempts and keys. */
const MAX_RUNNING = 50_000;
const MAX_KEYS = 10_000;
const SAVE_EVERY = 60_000;
/** Minimum time for which a peak lateness is retained (ms). */
const LATE_WINDOW = 6 * 3_600_000;

/** Minimum length of a silence (buckets). */
const MIN_SILENCE = 60_000 / BUCKET;

/** `result`: an end that may be the only listed event of an attempt. */
const KINDS: Readonly<Partial<Record<EventState, 'begin' | 'result' | 'end'>>> = {
  active: 'begin',
  delivered: 'result',
  error: 'result',
  retry: 'end',
  failed: 'end',
  cancelled: 'end',
};
const KIND_OF = EVENT_STATES.map(state => KINDS[state]);
/** By state index: whether a message in this state waits for its next attempt, unless it fails immediately. */
const WAITS = EVENT_STATES.map(state => state === 'error' || state === 'retry');
const NONE: RunningBounds = { max: 0, min: 0 };

interface Running {
  readonly key: string;
  readonly from: number;
}

interface End {
  readonly key: string;
  readonly time: number;
  /** Whether the start of the attempt was listed. */
  isPaired: boolean;
  /** Whether the message was waiting for a retry when this end was added. */
  readonly waited: boolean;
}

type StoredLedger = {
  readonly since: number;
  readonly readTo: number;
  readonly keys: readonly string[];
  /** Message, index of its key, start of the attempt. */
  readonly running: readonly (readonly [string, number, number])[];
  /** Message, index of its key, start and end of the wait for a retry. */
  readonly waits: readonly (readonly [string, number, number, number])[];
  readonly droppedUntil: number;
};

/** Read-only view of a ledger, for the audit. */
export type Attempts = Readonly<Omit<AttemptLedger, 'open' | 'add' | 'settle' | 'reset' | 'row' | 'rereadFrom'>>;

/** Tracks attempts by flow-control key. Accepts events in any order. Times: milliseconds since the Unix epoch. */
export class AttemptLedger {
  /** Start of tracking: every attempt that starts later is tracked. */
  since: number;
  newest = 0;
  /** Time up to which all events are listed, except those delayed by more than `lateBy`. */
  settledTo: number;
  /** Time up to which the last complete read requested events. */
  readTo = 0;
  /** The last span without events: the log was silent or lost events. */
  silence: { readonly from: number; readonly to: number } | undefined;
  /** Whether any start had a key. Without keys, every slot in use would look like a ghost slot. */
  isKeyed: boolean;
  /** Whether keys or attempts exceed a limit, which makes the numbers incomplete. */
  isOverLimit = false;
  /** Time from which the log must be read again after a restart; undefined without a stored row. */
  readonly rereadFrom: number | undefined;

  readonly #running = new Map<bigint, Running>();
  /** Recent ends of attempts, kept so that delayed and repeated events are not counted twice. */
  readonly #ends = new Map<bigint, End>();
  readonly #keys = new Map<string, AttemptTimeline>();
  /** Sum of attempts and waits, for keys on which a message has waited for a retry. */
  readonly #claims = new Map<string, AttemptTimeline>();
  readonly #waits = createWaits();
  /** Start of this process's first read. The previous process may have counted attempts that ended earlier. */
  #openedAt = 0;
  #fedTo = 0;
  #late = { at: 0, by: 0 };
  #savedAt = Number.NEGATIVE_INFINITY;
  /** Buckets with unsettled events. */
  readonly #activeBuckets = new Set<number>();
  #lastSettledBucket: number | undefined;

  /** `stored`: the row of an earlier process. */
  constructor(stored?: string) {
    const before = stored === undefined ? undefined : (JSON.parse(stored) as StoredLedger);
    this.since = before?.since ?? 0;
    this.settledTo = before?.readTo ?? 0;
    this.rereadFrom = before?.readTo;
    // A ledger without keys is never stored.
    this.isKeyed = before !== undefined;
    for (const [message, index, from] of before?.running ?? []) {
      const key = before?.keys[index] as string;
      this.#running.set(BigInt(`0x${message}`), { key, from });
      this.#timeline(key)?.step(Math.min(from, this.settledTo), 1);
    }
    for (const [message, index, from, due] of before?.waits ?? []) {
      const key = before?.keys[index] as string;
      const isNew = this.#waits.begin(BigInt(`0x${message}`), key, from, due);
      if (isNew) this.#claimsOf(key)?.step(Math.min(from, this.settledTo), 1);
    }
    this.#waits.droppedUntil = before?.droppedUntil ?? 0;
  }

  /** Peak lateness of events in the last six hours (ms). */
  get lateBy(): number {
    return this.readTo - this.#late.at > LATE_WINDOW ? 0 : this.#late.by;
  }

  /** Whether more messages waited for a retry than can be tracked. */
  get hasTooManyWaits(): boolean {
    return this.settledTo < this.#waits.droppedUntil;
  }

  running(key: string, from: number, to: number): RunningBounds {
    return this.#keys.get(key)?.running(from, to) ?? NONE;
  }

  /** Returns the minimum and maximum number of running attempts plus messages waiting for a retry. */
  claimed(key: string, from: number, to: number): RunningBounds {
    return (this.#claims.get(key) ?? this.#keys.get(key))?.running(from, to) ?? NONE;
  }

  begun(key: string, from: number, to: number): number {
    return this.#keys.get(key)?.begun(from, to) ?? 0;
  }

  /** Returns the number of ended attempts without a listed start. */
  unseen(key: string): number {
    return this.#keys.get(key)?.unseen ?? 0;
  }

  /** Records that this process's first read starts at `now` and covers events from `from` on. */
  open(from: number, now: number): void {
    this.#openedAt = now;
    if (this.rereadFrom === undefined) this.since = from;
    else if (from > this.rereadFrom) this.reset(from);
  }

  add({ message, state, time, dueAt = 0, flowKey }: AttemptEvent): void {
    this.#fedTo = Math.max(this.#fedTo, time);
    this.#activeBuckets.add(bucketOf(time));
    const kind = KIND_OF[state];
    if (kind === 'begin') this.isKeyed ||= flowKey !== undefined;
    const key = kind === 'begin' ? flowKey : (flowKey ?? this.#running.get(message)?.key ?? this.#waits.keyOf(message));
    if (!kind || key === undefined) return;
    const isWait = WAITS[state] === true;
    const claimed = isWait ? this.#claimsOf(key) : this.#claims.get(key);
    const had = this.#isClaiming(message);
    if (kind === 'begin') this.#begin(message, key, time);
    else {
      this.#end(message, time, kind, flowKey);
      if (isWait) this.#wait(message, time, dueAt, key);
      else this.#waits.end(message, time, kind === 'end');
    }
    // Between an attempt and a wait, the message keeps its claim.
    const has = this.#isClaiming(message);
    if (had !== has) claimed?.step(time, has ? 1 : -1);
  }

  /** Records that all events up to `settledTo` are listed. `readTo`: end of the read's range, if the read is complete. */
  settle(read: { readonly newest: number; readonly settledTo: number; readonly readTo: number | undefined }): void {
    this.newest = read.newest;
    this.readTo = read.readTo ?? this.readTo;
    if (this.#late.by > 0 && this.readTo - this.#late.at > LATE_WINDOW) this.#late = { at: this.readTo, by: 0 };
    if (bucketOf(read.settledTo) < bucketOf(this.settledTo)) return;
    this.settledTo = Math.max(this.settledTo, this.#beforeSilence(read.settledTo));
    this.#detectSilence();
    for (const lines of [this.#keys, this.#claims]) for (const each of lines.values()) each.settle(this.settledTo);
    this.#evict();
  }

  /** Discards all attempts, because the log lost events before `time`. */
  reset(time: number): void {
    this.since = Math.max(this.since, time, this.#fedTo);
    for (const map of [this.#running, this.#ends, this.#keys, this.#claims, this.#waits]) map.clear();
  }

  /** Returns the row for the next process; undefined without keys, or if the last row is less than a minute old. */
  row(): string | undefined {
    if (!this.isKeyed || this.readTo - this.#savedAt < SAVE_EVERY) return undefined;
    this.#savedAt = this.readTo;
    const waiting = this.#waits.all;
    const used = [...this.#running.values()].map(({ key }) => key);
    const names = [...new Set([...used, ...waiting.map(([, key]) => key)])];
    const indexes = new Map(names.map((name, index) => [name, index]));
    const indexOf = (key: string) => indexes.get(key) as number;
    return JSON.stringify({
      since: this.since,
      readTo: this.settledTo,
      keys: names,
      running: [...this.#running].map(
        ([message, { key, from }]) => [message.toString(16), indexOf(key), from] as const,
      ),
      waits: waiting.map(([message, key, from, due]) => [message.toString(16), indexOf(key), from, due] as const),
      droppedUntil: this.#waits.droppedUntil,
    } satisfies StoredLedger);
  }

  #isClaiming(message: bigint): boolean {
    return this.#running.has(message) || this.#waits.keyOf(message) !== undefined;
  }

  #timeline(key: string): AttemptTimeline | undefined {
    const known = this.#keys.get(key);
    if (known || this.#keys.size >= MAX_KEYS) {
      this.isOverLimit ||= !known;
      return known;
    }
    const made = new AttemptTimeline(this.settledTo);
    this.#keys.set(key, made);
    return made;
  }

  /** Returns the timeline of attempts and waits, or creates it. */
  #claimsOf(key: string): AttemptTimeline | undefined {
    const claimed = this.#claims.get(key) ?? this.#timeline(key)?.copy();
    if (claimed) this.#claims.set(key, claimed);
    return claimed;
  }

  #noteLateness(time: number): void {
    if (this.settledTo - time > this.#late.by) this.#late = { at: this.readTo, by: this.settledTo - time };
  }

  #step(key: string, time: number, by: 1 | -1): void {
    this.#timeline(key)?.step(time, by);
    if (by > 0) this.#noteLateness(time);
  }

  #begin(message: bigint, key: string, time: number): void {
    const known = this.#running.get(message);
    // Delayed: this attempt ended before the known one began.
    if (known && time <= known.from) return;
    const end = this.#ends.get(message);
    if (end && time <= end.time) {
      if (end.isPaired) return;
      end.isPaired = true;
      this.#timeline(key)?.span(time, end.time);
      if (!end.waited) this.#claims.get(key)?.span(time, end.time);
      this.#noteLateness(time);
      return;
    }
    // The end of the previous attempt is delayed or lost.
    if (known) this.#step(known.key, time, -1);
    else if (this.#running.size >= MAX_RUNNING) {
      this.isOverLimit = true;
      return;
    }
    this.#running.delete(message);
    this.#running.set(message, { key, from: time });
    this.#step(key, time, 1);
    this.#waits.end(message, time, false);
  }

  #wait(message: bigint, time: number, due: number, key: string): void {
    // A later event of the message has been added.
    if (this.#running.has(message) || (this.#ends.get(message)?.time ?? 0) > time) return;
    if (time > this.settledTo || due === 0 || due > this.settledTo) this.#waits.begin(message, key, time, due);
  }

  #end(message: bigint, time: number, kind: 'result' | 'end', key: string | undefined): void {
    const known = this.#running.get(message);
    if (known && time < known.from) return;
    if (known) {
      this.#running.delete(message);
      this.#step(known.key, time, -1);
      this.#ends.set(message, { key: known.key, time, isPaired: true, waited: false });
    } else if (key !== undefined && kind === 'result' && (this.#ends.get(message)?.time ?? 0) < time) {
      const waited = this.#waits.keyOf(message) !== undefined;
      this.#ends.set(message, { key, time, isPaired: false, waited });
    }
  }

  /** Returns `time`, or the start of a silence before it: a silence is settled only together with the next event. */
  #beforeSilence(time: number): number {
    let [last, next] = [this.#lastSettledBucket ?? Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (const bucket of this.#activeBuckets) {
      if (bucket > bucketOf(time)) next = Math.min(next, bucket);
      else last = Number.isFinite(last) ? Math.max(last, bucket) : bucket;
    }
    return next - last > MIN_SILENCE ? Math.min(time, (last + 1) * BUCKET) : time;
  }

  #detectSilence(): void {
    const settled = [...this.#activeBuckets].filter(bucket => bucket <= bucketOf(this.settledTo)).sort((a, b) => a - b);
    for (const bucket of settled) {
      this.#activeBuckets.delete(bucket);
      const last = this.#lastSettledBucket;
      if (last !== undefined && bucket - last > MIN_SILENCE) {
        this.silence = { from: (last + 1) * BUCKET, to: bucket * BUCKET };
      }
      this.#lastSettledBucket = Math.max(last ?? bucket, bucket);
    }
  }

  #evict(): void {
    for (const [message, { key, time, isPaired }] of this.#ends) {
      if (time > this.settledTo) continue;
      // The start may lie before the part of the log that was read.
      const line = !isPaired && time > Math.max(this.since, this.#openedAt) ? this.#timeline(key) : undefined;
      if (line) line.unseen += 1;
      this.#ends.delete(message);
    }
    for (const [message, { key, from }] of this.#running) {
      if (from > this.settledTo - MAX_DURATION) break;
      this.#running.delete(message);
      for (const lines of [this.#keys, this.#claims]) lines.get(key)?.step(this.settledTo, -1);
    }
    for (const key of this.#waits.settle(this.settledTo)) this.#claims.get(key)?.step(this.settledTo, -1);
    for (const [key, timeline] of this.#keys) {
      if (!timeline.isIdle() || this.#claims.get(key)?.isIdle() === false) continue;
      this.#keys.delete(key);
      this.#claims.delete(key);
    }
    this.isOverLimit &&= this.#running.size >= MAX_RUNNING || this.#keys.size >= MAX_KEYS;
  }
}
