import { EVENT_STATES, type EventState } from '../../model/message.ts';
import { BUCKET, bucketOf, createTimeline, type Timeline } from './timeline.ts';
import { createWaits } from './waits.ts';

/** What of an event tells attempts. `state`: index in EVENT_STATES; `time`: milliseconds since the Unix epoch. */
export interface AttemptEvent {
  readonly message: bigint;
  readonly state: number;
  readonly time: number;
  /** When the next attempt is due, as far as the event says; 0 where it does not. */
  readonly dueAt?: number | undefined;
  /** Undefined where the log does not tell it, and of messages without one. */
  readonly flowKey?: string | undefined;
}

export interface Extent {
  readonly most: number;
  readonly fewest: number;
}

/** Attempts of the event log by flow-control key, to compare slots with. Times: milliseconds since the Unix epoch. */
export interface Attempts {
  /** Every attempt that began later is known. */
  readonly since: number;
  /** The newest event, of any message. Nothing is known of what came after. */
  readonly newest: number;
  /** Everything until here is listed, but for what is later than `lateBy`. */
  readonly settledTo: number;
  /** The last complete read of the log asked for events until here. */
  readonly readTo: number;
  /** By how much events were later than that at most, in the last hours. */
  readonly lateBy: number;
  /** The last span in which the log shows nothing at all: it was silent, or lost what happened. */
  readonly silence: { readonly from: number; readonly to: number } | undefined;
  /** Whether any event that begins an attempt told its key: the others alone would make each slot in use a ghost. */
  readonly isKeyed: boolean;
  /** More keys or attempts run than are followed: nothing can be said of them. */
  readonly isTooMuch: boolean;
  /** More messages wait for a retry than are followed. */
  readonly isTooMuchWaiting: boolean;
  /** The most, and the fewest, that ran at a time within a span. */
  running(key: string, from: number, to: number): Extent;
  /** The same of attempts and of messages that wait for a retry, together. */
  claimed(key: string, from: number, to: number): Extent;
  /** How many began within a span. */
  begun(key: string, from: number, to: number): number;
  /** Attempts that ended and were never seen to begin. */
  unseen(key: string): number;
}

/** Follows attempts through events in any order. */
export type AttemptLedger = ReturnType<typeof createAttemptLedger>;

/** An attempt without an end is given up after the longest time that the service allows one, milliseconds. */
const LONGEST_ATTEMPT = 12 * 3_600_000;
/** More are not followed. */
const MOST_RUNNING = 50_000;
const MOST_KEYS = 10_000;
const SAVE_EVERY = 60_000;
/** How long the greatest lateness counts at least, milliseconds. */
const LATE_WINDOW = 6 * 3_600_000;

/** A shorter silence is none, in spans of BUCKET. */
const SILENT = 60_000 / BUCKET;

/** `answer`: the end of an attempt, and of nothing else. */
const KINDS: Readonly<Partial<Record<EventState, 'begin' | 'answer' | 'end'>>> = {
  active: 'begin',
  delivered: 'answer',
  error: 'answer',
  retry: 'end',
  failed: 'end',
  cancelled: 'end',
};
const KIND_OF = EVENT_STATES.map(state => KINDS[state]);
/** After these a message waits for its next attempt, unless it has none left and fails at once. */
const WAITS = EVENT_STATES.map(state => state === 'error' || state === 'retry');
const NOTHING: Extent = { most: 0, fewest: 0 };

interface Running {
  readonly key: string;
  readonly from: number;
}

interface End {
  readonly key: string;
  readonly time: number;
  /** Its attempt is known. */
  isPaired: boolean;
  /** Before it was known to end, the message was known to wait. */
  readonly waited: boolean;
}

type StoredLedger = {
  readonly since: number;
  readonly readTo: number;
  readonly keys: readonly string[];
  /** Message, index of its key, time at which the attempt began. */
  readonly running: readonly (readonly [string, number, number])[];
  /** Message, index of its key, since when it waits for a retry, and until when. */
  readonly waits: readonly (readonly [string, number, number, number])[];
  readonly droppedUntil: number;
};

/** `stored`: the row of an earlier process. */
export function createAttemptLedger(stored?: string) {
  const before = stored === undefined ? undefined : (JSON.parse(stored) as StoredLedger);
  const running = new Map<bigint, Running>();
  /** Of attempts that ended a short while ago: what is listed late or twice must not count again. */
  const ends = new Map<bigint, End>();
  const keys = new Map<string, Timeline>();
  /** Of attempts and waits together: of keys on which a message has waited for a retry. The others have attempts alone. */
  const claims = new Map<string, Timeline>();
  const waits = createWaits();
  let since = before?.since ?? 0;
  /** What ended before may have been seen to begin by the process before. */
  let openedAt = 0;
  let fedTo = 0;
  let [newest, settledTo, readTo] = [0, before?.readTo ?? 0, 0];
  // Nothing is stored before that.
  let isKeyed = before !== undefined;
  let isTooMuch = false;
  let late = { at: 0, by: 0 };
  let savedAt = Number.NEGATIVE_INFINITY;

  /** Spans of time with events that are not settled, and the last that is. */
  const heard = new Set<number>();
  let heardTo: number | undefined;
  let lastHeard = Number.NaN;
  let silence: Attempts['silence'];

  /** What happened in a silence is told by what comes after it, once that is settled. */
  function beforeSilence(time: number): number {
    let [last, next] = [heardTo ?? Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (const bucket of heard) {
      if (bucket > bucketOf(time)) next = Math.min(next, bucket);
      else last = Number.isFinite(last) ? Math.max(last, bucket) : bucket;
    }
    return next - last > SILENT ? Math.min(time, (last + 1) * BUCKET) : time;
  }

  function noticeSilence(): void {
    const settled = [...heard].filter(bucket => bucket <= bucketOf(settledTo)).sort((a, b) => a - b);
    for (const bucket of settled) {
      heard.delete(bucket);
      if (heardTo !== undefined && bucket - heardTo > SILENT) {
        silence = { from: (heardTo + 1) * BUCKET, to: bucket * BUCKET };
      }
      heardTo = Math.max(heardTo ?? bucket, bucket);
    }
    lastHeard = Number.NaN;
  }

  function timeline(key: string): Timeline | undefined {
    const known = keys.get(key);
    if (known || keys.size >= MOST_KEYS) {
      isTooMuch ||= !known;
      return known;
    }
    const made = createTimeline(settledTo);
    keys.set(key, made);
    return made;
  }

  /** From the first failed attempt of a key on, attempts and waits together have a line of their own. */
  function claimsOf(key: string): Timeline | undefined {
    const claimed = claims.get(key) ?? timeline(key)?.copy();
    if (claimed) claims.set(key, claimed);
    return claimed;
  }

  function noteLateness(time: number): void {
    if (settledTo - time > late.by) late = { at: readTo, by: settledTo - time };
  }

  function step(key: string, time: number, by: 1 | -1): void {
    timeline(key)?.step(time, by);
    if (by > 0) noteLateness(time);
  }

  for (const [message, index, from] of before?.running ?? []) {
    const key = before?.keys[index] as string;
    running.set(BigInt(`0x${message}`), { key, from });
    timeline(key)?.step(Math.min(from, settledTo), 1);
  }
  for (const [message, index, from, due] of before?.waits ?? []) {
    const key = before?.keys[index] as string;
    if (waits.begin(BigInt(`0x${message}`), key, from, due)) claimsOf(key)?.step(Math.min(from, settledTo), 1);
  }
  waits.droppedUntil = before?.droppedUntil ?? 0;

  function begin(message: bigint, key: string, time: number): void {
    const known = running.get(message);
    // One that was listed late: it ended before the one that is known began.
    if (known && time <= known.from) return;
    const end = ends.get(message);
    if (end && time <= end.time) {
      if (end.isPaired) return;
      end.isPaired = true;
      timeline(key)?.span(time, end.time);
      if (!end.waited) claims.get(key)?.span(time, end.time);
      noteLateness(time);
      return;
    }
    // The end of the attempt before was lost, or is listed late.
    if (known) step(known.key, time, -1);
    else if (running.size >= MOST_RUNNING) {
      isTooMuch = true;
      return;
    }
    running.delete(message);
    running.set(message, { key, from: time });
    step(key, time, 1);
    waits.end(message, time, false);
  }

  /** An attempt failed. */
  function wait(message: bigint, time: number, due: number, key: string): void {
    // What came later is known already, or was and is forgotten.
    if (running.has(message) || (ends.get(message)?.time ?? 0) > time) return;
    if (time > settledTo || due === 0 || due > settledTo) waits.begin(message, key, time, due);
  }

  function end(message: bigint, time: number, kind: 'answer' | 'end', key: string | undefined): void {
    const known = running.get(message);
    if (known && time < known.from) return;
    if (known) {
      running.delete(message);
      step(known.key, time, -1);
      ends.set(message, { key: known.key, time, isPaired: true, waited: false });
    } else if (key !== undefined && kind === 'answer' && (ends.get(message)?.time ?? 0) < time) {
      ends.set(message, { key, time, isPaired: false, waited: waits.keyOf(message) !== undefined });
    }
  }

  function forget(): void {
    for (const [message, { key, time, isPaired }] of ends) {
      if (time > settledTo) continue;
      // What began before the log was followed is not missing.
      if (!isPaired && time > Math.max(since, openedAt)) timeline(key)?.markUnseen();
      ends.delete(message);
    }
    for (const [message, { key, from }] of running) {
      if (from > settledTo - LONGEST_ATTEMPT) break;
      running.delete(message);
      for (const lines of [keys, claims]) lines.get(key)?.step(settledTo, -1);
    }
    for (const key of waits.settle(settledTo)) claims.get(key)?.step(settledTo, -1);
    for (const [key, timeline] of keys) {
      if (!timeline.isIdle() || claims.get(key)?.isIdle() === false) continue;
      keys.delete(key);
      claims.delete(key);
    }
    isTooMuch &&= running.size >= MOST_RUNNING || keys.size >= MOST_KEYS;
  }

  const view: Attempts = {
    get since() {
      return since;
    },
    get newest() {
      return newest;
    },
    get settledTo() {
      return settledTo;
    },
    get readTo() {
      return readTo;
    },
    get lateBy() {
      return readTo - late.at > LATE_WINDOW ? 0 : late.by;
    },
    get silence() {
      return silence;
    },
    get isKeyed() {
      return isKeyed;
    },
    get isTooMuch() {
      return isTooMuch;
    },
    get isTooMuchWaiting() {
      return settledTo < waits.droppedUntil;
    },
    running: (key, from, to) => keys.get(key)?.running(from, to) ?? NOTHING,
    claimed: (key, from, to) => (claims.get(key) ?? keys.get(key))?.running(from, to) ?? NOTHING,
    begun: (key, from, to) => keys.get(key)?.begun(from, to) ?? 0,
    unseen: key => keys.get(key)?.unseen() ?? 0,
  };

  return {
    view,
    /** The log is to be read again from here on, so that nothing is missing after a restart; undefined where nothing was stored. */
    rereadFrom: before?.readTo,
    /** The first read of this process begins: of events from `from` on, at `now`. */
    open(from: number, now: number): void {
      openedAt = now;
      if (!before) since = from;
      else if (from > before.readTo) this.reset(from);
    },
    add({ message, state, time, dueAt = 0, flowKey }: AttemptEvent): void {
      fedTo = Math.max(fedTo, time);
      const bucket = bucketOf(time);
      if (bucket !== lastHeard) heard.add(bucket);
      lastHeard = bucket;
      const kind = KIND_OF[state];
      if (kind === 'begin') isKeyed ||= flowKey !== undefined;
      const key = kind === 'begin' ? flowKey : (flowKey ?? running.get(message)?.key ?? waits.keyOf(message));
      if (!kind || key === undefined) return;
      const isWait = WAITS[state] === true;
      const claimed = isWait ? claimsOf(key) : claims.get(key);
      const had = running.has(message) || waits.keyOf(message) !== undefined;
      if (kind === 'begin') begin(message, key, time);
      else {
        end(message, time, kind, flowKey);
        if (isWait) wait(message, time, dueAt, key);
        else waits.end(message, time, kind === 'end');
      }
      // One that fails and waits, or waits and begins, keeps its place without a break.
      const has = running.has(message) || waits.keyOf(message) !== undefined;
      if (had !== has) claimed?.step(time, has ? 1 : -1);
    },
    /** Everything until `settledTo` is listed. `readTo`: a read of the log is complete, which asked for events until there. */
    settle(read: { readonly newest: number; readonly settledTo: number; readonly readTo: number | undefined }): void {
      newest = read.newest;
      readTo = read.readTo ?? readTo;
      if (late.by > 0 && readTo - late.at > LATE_WINDOW) late = { at: readTo, by: 0 };
      if (bucketOf(read.settledTo) < bucketOf(settledTo)) return;
      settledTo = Math.max(settledTo, beforeSilence(read.settledTo));
      noticeSilence();
      for (const lines of [keys, claims]) for (const each of lines.values()) each.settle(settledTo);
      forget();
    },
    /** The log lost events until `time`: what began before is not known. */
    reset(time: number): void {
      since = Math.max(since, time, fedTo);
      for (const map of [running, ends, keys, claims, waits]) map.clear();
    },
    /** What the next process needs, when it is time to store it: once a minute of reading. */
    row(): string | undefined {
      if (!isKeyed || readTo - savedAt < SAVE_EVERY) return undefined;
      savedAt = readTo;
      const waiting = waits.all;
      const names = [...new Set([...running.values()].map(({ key }) => key).concat(waiting.map(([, key]) => key)))];
      const places = new Map(names.map((name, index) => [name, index]));
      const place = (key: string) => places.get(key) as number;
      return JSON.stringify({
        since,
        readTo: settledTo,
        keys: names,
        running: [...running].map(([message, { key, from }]) => [message.toString(16), place(key), from] as const),
        waits: waiting.map(([message, key, from, due]) => [message.toString(16), place(key), from, due] as const),
        droppedUntil: waits.droppedUntil,
      } satisfies StoredLedger);
    },
  };
}
