/** Length of a bucket (ms), and number of buckets. */
export const BUCKET = 5000;
const BUCKETS = 240;

export const bucketOf = (time: number) => Math.floor(time / BUCKET);

const placeOf = (bucket: number) => ((bucket % BUCKETS) + BUCKETS) % BUCKETS;

/** Number of running attempts of a key over time. Times are in milliseconds since the Unix epoch. */
export class AttemptTimeline {
  /** Per bucket, as a ring: maximum and minimum of running attempts, and number of starts. */
  #max = new Uint16Array(BUCKETS);
  #min = new Uint16Array(BUCKETS);
  #starts = new Uint16Array(BUCKETS);
  /** Unsettled steps, encoded as twice the time, plus one for a start. When sorted, an end precedes a start of the same millisecond. */
  #steps: number[] = [];
  #now = 0;
  #settledTo: number;
  #busyAt: number;
  /** Number of ended attempts without a listed start. */
  unseen = 0;

  constructor(from: number) {
    this.#settledTo = from;
    this.#busyAt = from;
  }

  /** Adds or removes an attempt from `time` on. Before the settled time, starts only raise maxima, and ends move to that time. */
  step(time: number, by: 1 | -1): void {
    this.#busyAt = Math.max(this.#busyAt, time);
    if (time > this.#settledTo) {
      this.#steps.push(2 * time + (by > 0 ? 1 : 0));
      return;
    }
    this.#now = Math.max(0, this.#now + by);
    if (by > 0) this.#raise(time, this.#settledTo);
    else {
      // Counting the attempt until the settled time does no harm.
      const place = placeOf(bucketOf(this.#settledTo));
      this.#min[place] = Math.min(this.#min[place] as number, this.#now);
    }
  }

  /** Adds an ended attempt that was listed with a delay. */
  span(from: number, to: number): void {
    if (to > this.#settledTo) {
      this.step(from, 1);
      this.step(to, -1);
    } else this.#raise(from, to);
  }

  /** Settles all steps up to `time`. */
  settle(time: number): void {
    if (this.#steps.length > 0) {
      const sorted = Float64Array.from(this.#steps).sort();
      let count = 0;
      for (; count < sorted.length && (sorted[count] as number) < 2 * (time + 1); count += 1) {
        const step = sorted[count] as number;
        this.#advance(Math.floor(step / 2));
        this.#count(step % 2 === 1 ? 1 : -1);
      }
      if (count > 0) this.#steps = [...sorted.subarray(count)];
    }
    this.#advance(time);
  }

  running(from: number, to: number): { readonly max: number; readonly min: number } {
    let [highest, lowest] = [0, Number.POSITIVE_INFINITY];
    for (const place of this.#places(from, to)) {
      highest = Math.max(highest, this.#max[place] as number);
      lowest = Math.min(lowest, this.#min[place] as number);
    }
    if (to > this.#settledTo || lowest === Number.POSITIVE_INFINITY) {
      let running = this.#now;
      [highest, lowest] = [Math.max(highest, running), Math.min(lowest, running)];
      for (const step of Float64Array.from(this.#steps).sort()) {
        running += step % 2 === 1 ? 1 : -1;
        [highest, lowest] = [Math.max(highest, running), Math.min(lowest, running)];
      }
    }
    return { max: highest, min: Math.max(0, lowest) };
  }

  begun(from: number, to: number): number {
    let all = 0;
    for (const place of this.#places(from, to)) all += this.#starts[place] as number;
    return all;
  }

  isIdle(): boolean {
    return this.#now === 0 && this.#steps.length === 0 && this.#settledTo - this.#busyAt > BUCKETS * BUCKET;
  }

  copy(): AttemptTimeline {
    const copy = new AttemptTimeline(this.#settledTo);
    copy.#max = this.#max.slice();
    copy.#min = this.#min.slice();
    copy.#starts = this.#starts.slice();
    copy.#steps = [...this.#steps];
    copy.#now = this.#now;
    return copy;
  }

  *#places(from: number, to: number): Generator<number> {
    const last = bucketOf(this.#settledTo);
    const first = Math.max(bucketOf(from), last - BUCKETS + 1);
    for (let bucket = first; bucket <= Math.min(bucketOf(to), last); bucket += 1) yield placeOf(bucket);
  }

  #raise(from: number, to: number): void {
    for (const place of this.#places(from, to)) this.#max[place] = (this.#max[place] as number) + 1;
  }

  #advance(time: number): void {
    // Clamp only when time advances: within a millisecond, the end of an attempt is counted before its start.
    if (time > this.#settledTo) this.#now = Math.max(0, this.#now);
    const last = bucketOf(time);
    for (let bucket = Math.max(bucketOf(this.#settledTo) + 1, last - BUCKETS + 1); bucket <= last; bucket += 1) {
      const place = placeOf(bucket);
      this.#max[place] = this.#now;
      this.#min[place] = this.#now;
      this.#starts[place] = 0;
    }
    this.#settledTo = Math.max(this.#settledTo, time);
  }

  #count(by: 1 | -1): void {
    const place = placeOf(bucketOf(this.#settledTo));
    this.#now += by;
    this.#max[place] = Math.max(this.#max[place] as number, this.#now);
    this.#min[place] = Math.max(0, Math.min(this.#min[place] as number, this.#now));
    if (by > 0) this.#starts[place] = (this.#starts[place] as number) + 1;
  }
}
