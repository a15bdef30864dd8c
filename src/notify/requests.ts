import type { Labels, Notice } from './notice.ts';

export interface Item {
  /** Id of the alert's group. */
  readonly id: string;
  readonly notice: Notice;
  /** Whether the request contains the complete group, so that its next repetition is due after `repeatEvery`. */
  readonly isWhole: boolean;
}

/** A request, and the number of the group's alerts that it omits. */
export interface DueRequest {
  readonly labels: Labels;
  readonly items: readonly Item[];
  readonly left: number;
}

/** Maximum size of the alerts in a request (bytes), small enough for common receivers. */
const MAX_BYTES = 256 * 1024;

/** Returns the first items that stay within a maximum number and size, but at least one. */
function firstWithin(items: readonly Item[], maxItems: number): readonly Item[] {
  let size = 0;
  const end = items.findIndex(({ notice }, index) => {
    size += Buffer.byteLength(JSON.stringify(notice));
    return index > 0 && (index >= maxItems || size > MAX_BYTES);
  });
  return end < 0 ? items : items.slice(0, end);
}

/** Splits alerts into requests, until the first `unsent` ones are in one. */
export function split(labels: Labels, all: readonly Item[], maxAlerts: number, unsent: number): readonly DueRequest[] {
  const requests: DueRequest[] = [];
  for (let at = 0; at < Math.max(unsent, Math.min(1, all.length)); ) {
    const items = firstWithin(all.slice(at), maxAlerts);
    requests.push({ labels, items, left: all.length - items.length });
    at += items.length;
  }
  return requests;
}
