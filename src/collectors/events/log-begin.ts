import type { Reader } from '../../upstream/api.ts';
import { MINUTE } from './memory.ts';

/** To within so many milliseconds the begin of the log is looked for. */
const CLOSE = 3_600_000;

/**
 * A full minute, an hour at most before the oldest event that is listed in a range; undefined where none is. Without it, ranges
 * that are as long as an empty past would be cut again and again where the log begins. Times: milliseconds since the Unix epoch.
 */
export async function findOldest(
  reader: Pick<Reader, 'eventPages'>,
  { from, to }: { readonly from: number; readonly to: number },
  signal: AbortSignal,
): Promise<number | undefined> {
  async function isEmpty(end: number): Promise<boolean> {
    const pages = reader.eventPages({ fromDate: from, toDate: end }, signal);
    for (let page = await pages.next(); !page.done; page = await pages.next()) {
      // Rows of another time, too: where the service does not heed the range, there is nothing to look for.
      if (page.value.rows.length + page.value.rejected > 0) return false;
    }
    return true;
  }
  if (to - from <= CLOSE || !(await isEmpty(from + CLOSE))) return from;
  if (await isEmpty(to)) return undefined;
  // Nothing is listed until `low`, and something until `high`.
  let [low, high] = [from + CLOSE, to];
  while (high - low > CLOSE) {
    const middle = Math.floor((low + high) / 2);
    if (await isEmpty(middle)) low = middle;
    else high = middle;
  }
  return Math.max(from, Math.floor(low / MINUTE) * MINUTE);
}
