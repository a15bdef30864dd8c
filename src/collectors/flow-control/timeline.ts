/** Milliseconds of the finest span that is told. */
export const BUCKET = 5000;
/** As many spans are remembered: twenty minutes. */
const KEPT = 240;

export const bucketOf = (time: number) => Math.floor(time / BUCKET);

/** How many attempts of a key ran when. Times: milliseconds since the Unix epoch. */
export interface Timeline {
  /** One more runs from then on, or one fewer. What is listed late raises what was known, and never lowers it. */
  step(time: number, by: 1 | -1): void;
  /** One more ran from one time until another: it was listed late. */
  span(from: number, to: number): void;
  /** Everything until then is known. */
  settle(time: number): void;
  running(from: number, to: number): { readonly most: number; readonly fewest: number };
  begun(from: number, to: number): number;
  markUnseen(): void;
  unseen(): number;
  /** Nothing runs, and nothing did for as long as is remembered. */
  isIdle(): boolean;
  /** Another that goes on from the same past. */
  copy(): Timeline;
}

/** What is told of the past, by span in turn: the most and the fewest that ran, and how many began. */
interface Past {
  readonly most: Uint16Array;
  readonly fewest: Uint16Array;
  readonly starts: Uint16Array;
  readonly steps: number[];
  readonly now: number;
}

const noPast = (): Past => ({
  most: new Uint16Array(KEPT),
  fewest: new Uint16Array(KEPT),
  starts: new Uint16Array(KEPT),
  steps: [],
  now: 0,
});

export function createTimeline(from: number, past: Past = noPast()): Timeline {
  const { most, fewest, starts } = past;
  /** Unsettled steps: twice the time, plus one for a start. Sorted, an end precedes a start of the same millisecond. */
  let { steps, now } = past;
  let settledTo = from;
  let unseen = 0;
  let busyAt = from;
  const at = (bucket: number) => ((bucket % KEPT) + KEPT) % KEPT;

  /** Spans within what is remembered, of what is settled. */
  function* buckets(from: number, to: number): Generator<number> {
    const last = bucketOf(settledTo);
    const first = Math.max(bucketOf(from), last - KEPT + 1);
    for (let bucket = first; bucket <= Math.min(bucketOf(to), last); bucket += 1) yield at(bucket);
  }

  function goTo(time: number): void {
    // Not before: what begins and ends at the same millisecond ends first here.
    if (time > settledTo) now = Math.max(0, now);
    const last = bucketOf(time);
    for (let bucket = Math.max(bucketOf(settledTo) + 1, last - KEPT + 1); bucket <= last; bucket += 1) {
      most[at(bucket)] = now;
      fewest[at(bucket)] = now;
      starts[at(bucket)] = 0;
    }
    settledTo = Math.max(settledTo, time);
  }

  function take(by: 1 | -1): void {
    const place = at(bucketOf(settledTo));
    now += by;
    most[place] = Math.max(most[place] as number, now);
    fewest[place] = Math.max(0, Math.min(fewest[place] as number, now));
    if (by > 0) starts[place] = (starts[place] as number) + 1;
  }

  return {
    step(time, by) {
      busyAt = Math.max(busyAt, time);
      if (time > settledTo) {
        steps.push(2 * time + (by > 0 ? 1 : 0));
        return;
      }
      now = Math.max(0, now + by);
      if (by < 0) {
        // Since when it was over is known, too, but a little more that ran is no harm.
        fewest[at(bucketOf(settledTo))] = Math.min(fewest[at(bucketOf(settledTo))] as number, now);
        return;
      }
      for (const place of buckets(time, settledTo)) most[place] = (most[place] as number) + 1;
    },
    span(from, to) {
      if (to > settledTo) {
        this.step(from, 1);
        this.step(to, -1);
      } else for (const place of buckets(from, to)) most[place] = (most[place] as number) + 1;
    },
    settle(time) {
      if (steps.length > 0) {
        const sorted = Float64Array.from(steps).sort();
        let taken = 0;
        while (taken < sorted.length && (sorted[taken] as number) < 2 * (time + 1)) {
          const step = sorted[taken] as number;
          goTo(Math.floor(step / 2));
          take(step % 2 === 1 ? 1 : -1);
          taken += 1;
        }
        if (taken > 0) steps = [...sorted.subarray(taken)];
      }
      goTo(time);
    },
    running(from, to) {
      let [highest, lowest] = [0, Number.POSITIVE_INFINITY];
      for (const place of buckets(from, to)) {
        highest = Math.max(highest, most[place] as number);
        lowest = Math.min(lowest, fewest[place] as number);
      }
      if (to > settledTo || lowest === Number.POSITIVE_INFINITY) {
        let running = now;
        [highest, lowest] = [Math.max(highest, now), Math.min(lowest, now)];
        for (const step of Float64Array.from(steps).sort()) {
          running += step % 2 === 1 ? 1 : -1;
          [highest, lowest] = [Math.max(highest, running), Math.min(lowest, running)];
        }
      }
      return { most: highest, fewest: Math.max(0, lowest) };
    },
    begun(from, to) {
      let all = 0;
      for (const place of buckets(from, to)) all += starts[place] as number;
      return all;
    },
    markUnseen() {
      unseen += 1;
    },
    unseen: () => unseen,
    isIdle: () => now === 0 && steps.length === 0 && settledTo - busyAt > KEPT * BUCKET,
    copy() {
      const spans = { most: most.slice(), fewest: fewest.slice(), starts: starts.slice() };
      return createTimeline(settledTo, { ...spans, steps: [...steps], now });
    },
  };
}
