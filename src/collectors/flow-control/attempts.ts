import { EVENT_STATES, type EventState } from '../../model/message.ts';
import { BUCKET, bucketOf, Timeline } from './timeline.ts';
import { createWaits } from './waits.ts';

export interface AttemptEvent {
  readonly message: bigint;
  /** Index in EVENT_STATES. */
  readonly state: number;
  /** Milliseconds since the Unix epoch. */
  readonly time: number;
  /** Due time of the next attempt; 0 if the event does not report it. */
  readonly dueAt?: number | undefined;
  /** Undefined if the log does not report keys, and for messages without a key. */
  readonly flowKey?: string | undefined;
}

export interface Extent {
  readonly most: number;
  readonly fewest: number;
}

/** An attempt without an end is given up after the longest duration that the service allows (ms). */
const LONGEST_ATTEMPT = 12 * 3_600_000;
/** Maximum numbers of tracked attempts and keys. */
const MOST_RUNNING = 50_000;
const MOST_KEYS = 10_000;
const SAVE_EVERY = 60_000;
/** Minimum time for which the greatest lateness counts (ms). */
const LATE_WINDOW = 6 * 3_600_000;

/** Length of the shortest silence (in buckets). */
const SILENT = 60_000 / BUCKET;

/** `answer`: ends an attempt and nothing else. */
const KINDS: Readonly<Partial<Record<EventState, 'begin' | 'answer' | 'end'>>> = {
  active: 'begin',
  delivered: 'answer',
  error: 'answer',
  retry: 'end',
  failed: 'end',
  cancelled: 'end',
};
const KIND_OF = EVENT_STATES.map(state => KINDS[state]);
/** After these states a message waits for its next attempt or fails immediately. */
const WAITS = EVENT_STATES.map(state => state === 'error' || state === 'retry');
const NOTHING: Extent = { most: 0, fewest: 0 };

interface Running {
  readonly key: string;
  readonly from: number;
}

interface End {
  readonly key: string;
  readonly time: number;
  /** The start of its attempt was listed. */
  isPaired: boolean;
  /** The wait of the message was listed before this end. */
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

/** Attempts of the event log by flow-control key, from events in any order. Times: milliseconds since the Unix epoch. */
export class AttemptLedger {
  /** All attempts that began later are tracked. */
  since: number;
  newest = 0;
  /** All events up to this time are listed, except those delayed by more than `lateBy`. */
  settledTo: number;
  /** Time up to which the last complete read requested events. */
  readTo = 0;
  /** The last span without any event: the log was silent, or lost events. */
  silence: { readonly from: number; readonly to: number } | undefined;
  /** Whether any event that begins an attempt had a key. Without keys every slot in use would look like a ghost. */
  isKeyed: boolean;
  /** More keys or attempts run than are tracked: the numbers are incomplete. */
  isTooMuch = false;
  /** Time from which the log must be read again after a restart; undefined without a stored row. */
  readonly rereadFrom: number | undefined;

  readonly #running = new Map<bigint, Running>();
  /** Recent ends of attempts: an event that is listed late or twice must not count again. */
  readonly #ends = new Map<bigint, End>();
  readonly #keys = new Map<string, Timeline>();
  /** Attempts and waits together, of keys on which a message has waited for a retry. Other keys have attempts only. */
  readonly #claims = new Map<string, Timeline>();
  readonly #waits = createWaits();
  /** The previous process may have seen the start of attempts that ended earlier. */
  #openedAt = 0;
  #fedTo = 0;
  #late = { at: 0, by: 0 };
  #savedAt = Number.NEGATIVE_INFINITY;
  /** Buckets with unsettled events, and the last settled one. */
  readonly #heard = new Set<number>();
  #heardTo: number | undefined;
  #lastHeard = Number.NaN;

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

  /** Greatest lateness of an event in the last hours (ms). */
  get lateBy(): number {
    return this.readTo - this.#late.at > LATE_WINDOW ? 0 : this.#late.by;
  }

  /** More messages wait for a retry than are tracked. */
  get isTooMuchWaiting(): boolean {
    return this.settledTo < this.#waits.droppedUntil;
  }

  running(key: string, from: number, to: number): Extent {
    return this.#keys.get(key)?.running(from, to) ?? NOTHING;
  }

  /** Concurrent attempts and messages that wait for a retry, together. */
  claimed(key: string, from: number, to: number): Extent {
    return (this.#claims.get(key) ?? this.#keys.get(key))?.running(from, to) ?? NOTHING;
  }

  begun(key: string, from: number, to: number): number {
    return this.#keys.get(key)?.begun(from, to) ?? 0;
  }

  /** Number of attempts that ended and were never seen to begin. */
  unseen(key: string): number {
    return this.#keys.get(key)?.unseen ?? 0;
  }

  /** Starts the first read of this process, at `now`, of events from `from` on. */
  open(from: number, now: number): void {
    this.#openedAt = now;
    if (this.rereadFrom === undefined) this.since = from;
    else if (from > this.rereadFrom) this.reset(from);
  }

  add({ message, state, time, dueAt = 0, flowKey }: AttemptEvent): void {
    this.#fedTo = Math.max(this.#fedTo, time);
    const bucket = bucketOf(time);
    if (bucket !== this.#lastHeard) this.#heard.add(bucket);
    this.#lastHeard = bucket;
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
    // A message that fails and waits, or waits and begins, keeps its place without a gap.
    const has = this.#isClaiming(message);
    if (had !== has) claimed?.step(time, has ? 1 : -1);
  }

  /** All events until `settledTo` are listed. `readTo`: end of the range of a complete read, if the read is complete. */
  settle(read: { readonly newest: number; readonly settledTo: number; readonly readTo: number | undefined }): void {
    this.newest = read.newest;
    this.readTo = read.readTo ?? this.readTo;
    if (this.#late.by > 0 && this.readTo - this.#late.at > LATE_WINDOW) this.#late = { at: this.readTo, by: 0 };
    if (bucketOf(read.settledTo) < bucketOf(this.settledTo)) return;
    this.settledTo = Math.max(this.settledTo, this.#beforeSilence(read.settledTo));
    this.#noticeSilence();
    for (const lines of [this.#keys, this.#claims]) for (const each of lines.values()) each.settle(this.settledTo);
    this.#forget();
  }

  /** The log lost events until `time`: earlier attempts are not tracked. */
  reset(time: number): void {
    this.since = Math.max(this.since, time, this.#fedTo);
    for (const map of [this.#running, this.#ends, this.#keys, this.#claims, this.#waits]) map.clear();
  }

  /** Row for the next process; undefined until a minute of reading has passed since the last one. */
  row(): string | undefined {
    if (!this.isKeyed || this.readTo - this.#savedAt < SAVE_EVERY) return undefined;
    this.#savedAt = this.readTo;
    const waiting = this.#waits.all;
    const used = [...this.#running.values()].map(({ key }) => key);
    const names = [...new Set([...used, ...waiting.map(([, key]) => key)])];
    const places = new Map(names.map((name, index) => [name, index]));
    const place = (key: string) => places.get(key) as number;
    return JSON.stringify({
      since: this.since,
      readTo: this.settledTo,
      keys: names,
      running: [...this.#running].map(([message, { key, from }]) => [message.toString(16), place(key), from] as const),
      waits: waiting.map(([message, key, from, due]) => [message.toString(16), place(key), from, due] as const),
      droppedUntil: this.#waits.droppedUntil,
    } satisfies StoredLedger);
  }

  #isClaiming(message: bigint): boolean {
    return this.#running.has(message) || this.#waits.keyOf(message) !== undefined;
  }

  #timeline(key: string): Timeline | undefined {
    const known = this.#keys.get(key);
    if (known || this.#keys.size >= MOST_KEYS) {
      this.isTooMuch ||= !known;
      return known;
    }
    const made = new Timeline(this.settledTo);
    this.#keys.set(key, made);
    return made;
  }

  /** From the first failed attempt of a key on, attempts and waits together have a separate timeline. */
  #claimsOf(key: string): Timeline | undefined {
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
    // Listed late: it ended before the known attempt began.
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
    // The end of the previous attempt was lost, or is listed late.
    if (known) this.#step(known.key, time, -1);
    else if (this.#running.size >= MOST_RUNNING) {
      this.isTooMuch = true;
      return;
    }
    this.#running.delete(message);
    this.#running.set(message, { key, from: time });
    this.#step(key, time, 1);
    this.#waits.end(message, time, false);
  }

  #wait(message: bigint, time: number, due: number, key: string): void {
    // Later events of the message were listed before.
    if (this.#running.has(message) || (this.#ends.get(message)?.time ?? 0) > time) return;
    if (time > this.settledTo || due === 0 || due > this.settledTo) this.#waits.begin(message, key, time, due);
  }

  #end(message: bigint, time: number, kind: 'answer' | 'end', key: string | undefined): void {
    const known = this.#running.get(message);
    if (known && time < known.from) return;
    if (known) {
      this.#running.delete(message);
      this.#step(known.key, time, -1);
      this.#ends.set(message, { key: known.key, time, isPaired: true, waited: false });
    } else if (key !== undefined && kind === 'answer' && (this.#ends.get(message)?.time ?? 0) < time) {
      const waited = this.#waits.keyOf(message) !== undefined;
      this.#ends.set(message, { key, time, isPaired: false, waited });
    }
  }

  /** A silence can be evaluated only after later events are settled. */
  #beforeSilence(time: number): number {
    let [last, next] = [this.#heardTo ?? Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (const bucket of this.#heard) {
      if (bucket > bucketOf(time)) next = Math.min(next, bucket);
      else last = Number.isFinite(last) ? Math.max(last, bucket) : bucket;
    }
    return next - last > SILENT ? Math.min(time, (last + 1) * BUCKET) : time;
  }

  #noticeSilence(): void {
    const settled = [...this.#heard].filter(bucket => bucket <= bucketOf(this.settledTo)).sort((a, b) => a - b);
    for (const bucket of settled) {
      this.#heard.delete(bucket);
      if (this.#heardTo !== undefined && bucket - this.#heardTo > SILENT) {
        this.silence = { from: (this.#heardTo + 1) * BUCKET, to: bucket * BUCKET };
      }
      this.#heardTo = Math.max(this.#heardTo ?? bucket, bucket);
    }
    this.#lastHeard = Number.NaN;
  }

  #forget(): void {
    for (const [message, { key, time, isPaired }] of this.#ends) {
      if (time > this.settledTo) continue;
      // An attempt that began before the log was read is not missing.
      const line = !isPaired && time > Math.max(this.since, this.#openedAt) ? this.#timeline(key) : undefined;
      if (line) line.unseen += 1;
      this.#ends.delete(message);
    }
    for (const [message, { key, from }] of this.#running) {
      if (from > this.settledTo - LONGEST_ATTEMPT) break;
      this.#running.delete(message);
      for (const lines of [this.#keys, this.#claims]) lines.get(key)?.step(this.settledTo, -1);
    }
    for (const key of this.#waits.settle(this.settledTo)) this.#claims.get(key)?.step(this.settledTo, -1);
    for (const [key, timeline] of this.#keys) {
      if (!timeline.isIdle() || this.#claims.get(key)?.isIdle() === false) continue;
      this.#keys.delete(key);
      this.#claims.delete(key);
    }
    this.isTooMuch &&= this.#running.size >= MOST_RUNNING || this.#keys.size >= MOST_KEYS;
  }
}
