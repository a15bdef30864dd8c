/** What becomes of the slot of a message that waits for its retry. */
export type RetrySlot = 'kept' | 'released';

/** What the reads of an account have taught of retries. Times: milliseconds since the Unix epoch. */
export interface RetrySlots {
  /** Undefined until it is proven, and when it was contradicted. */
  readonly known: RetrySlot | undefined;
  /** When the last evidence was true: only what began later is independent of it. */
  readonly at: number;
  /** A read that only one of the two explains. Whether what was known is withdrawn. */
  take(evidence: RetrySlot, at: number): boolean;
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
}

/** `stored`: the row of an earlier process. */
export function createRetrySlots(stored?: string): RetrySlots {
  const none: Stored = { known: undefined, last: undefined, count: 0, since: 0, caution: 1, provenAt: 0, at: 0 };
  const before = stored === undefined ? none : (JSON.parse(stored) as Stored);
  let { known, last, count, since, caution, provenAt, at } = before;

  function withdraw(): true {
    known = undefined;
    return true;
  }

  return {
    get known() {
      return known;
    },
    get at() {
      return at;
    },
    take(evidence, time) {
      if (evidence !== last) [last, count, since] = [evidence, 0, time];
      count += 1;
      at = time;
      if (evidence === known) provenAt = time;
      if (known === undefined && count >= NEEDED[evidence] * caution && time - since >= LASTS) {
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
      return JSON.stringify({ known, last, count, since, caution, provenAt, at } satisfies Stored);
    },
  };
}
