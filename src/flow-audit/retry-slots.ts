/** What becomes of the slot of a message that waits for its retry. */
export type RetrySlot = 'kept' | 'released';

/** What the reads of an account have taught of retries. Times: milliseconds since the Unix epoch. */
export interface RetrySlots {
  /** Undefined until it is proven, and when it was contradicted. */
  readonly known: RetrySlot | undefined;
  /** When the last evidence was true: only what began later is independent of it. */
  readonly at: number;
  /** The shortest wait that is proven to keep no slot, milliseconds: a service may keep those of shorter ones. Infinite without a proof. */
  readonly releasedFrom: number;
  /**
   * A read that only one of the two explains. `delay`: messages that were to wait for so long kept no slot; or none of those that
   * may keep theirs was to wait for less; milliseconds. Whether what was known is withdrawn.
   */
  take(evidence: RetrySlot, at: number, delay: number): boolean;
  /** Whether it is withdrawn because it is too old. */
  lapse(now: number): boolean;
  readonly row: string;
}

/**
 * Reads one after the other that tell the same, until it is known. A slot that leaks with a failed attempt looks like one that is
 * kept, so that takes more. What was wrong before takes twice as many.
 */
const NEEDED: Readonly<Record<RetrySlot, number>> = { released: 3, kept: 8 };
const MOST_CAUTION = 64;
/** For as long as this, milliseconds: a reset of slots makes them look given back for a while. */
const LASTS = 900_000;
/** Reads one after the other that tell the opposite, until it is not known any more. */
const CONTRADICTED = 2;
/** Of a wait that is proven to keep no slot: one that lasts for so large a share of it is as long. */
const AS_LONG = 0.9;
/** Without evidence for so long the service may have changed, milliseconds: seven days. */
const LAPSES = 7 * 86_400_000;

interface Stored {
  readonly known: RetrySlot | undefined;
  readonly last: RetrySlot | undefined;
  readonly count: number;
  /** Since when reads have told the same. */
  readonly since: number;
  readonly caution: number;
  /** When the last evidence for what is known was true. */
  readonly provenAt: number;
  readonly at: number;
  /** The shortest waits of reads that tell `released`, as many as it takes, milliseconds; in order. */
  readonly delays: readonly number[];
}

/** `stored`: the row of an earlier process. */
export function createRetrySlots(stored?: string): RetrySlots {
  const none: Stored = {
    known: undefined,
    last: undefined,
    count: 0,
    since: 0,
    caution: 1,
    provenAt: 0,
    at: 0,
    delays: [],
  };
  const before = stored === undefined ? none : { ...none, ...(JSON.parse(stored) as Partial<Stored>) };
  let { known, last, count, since, caution, provenAt, at, delays } = before;
  const needed = (evidence: RetrySlot) => NEEDED[evidence] * caution;
  const releasedFrom = () => AS_LONG * (delays[needed('released') - 1] ?? Number.POSITIVE_INFINITY);

  function withdraw(): true {
    known = undefined;
    delays = [];
    return true;
  }

  return {
    get known() {
      return known;
    },
    get at() {
      return at;
    },
    get releasedFrom() {
      return releasedFrom();
    },
    take(evidence, time, delay) {
      // Messages that wait for less may keep theirs.
      if (known === 'released' && evidence === 'kept' && delay < releasedFrom()) return false;
      if (evidence !== last) {
        [last, count, since] = [evidence, 0, time];
        if (known === undefined) delays = [];
      }
      if (evidence === 'released') delays = [...delays, delay].sort((a, b) => a - b).slice(0, needed('released'));
      count += 1;
      at = time;
      if (evidence === known) provenAt = time;
      if (known === undefined && count >= needed(evidence) && time - since >= LASTS) {
        known = evidence;
        provenAt = time;
      }
      if (known === undefined || evidence === known || count < CONTRADICTED) return false;
      caution = Math.min(MOST_CAUTION, 2 * caution);
      return withdraw();
    },
    lapse(now) {
      if (known === undefined || now - provenAt <= LAPSES) return false;
      count = 0;
      return withdraw();
    },
    get row() {
      return JSON.stringify({ known, last, count, since, caution, provenAt, at, delays } satisfies Stored);
    },
  };
}
