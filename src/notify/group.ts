import { fingerprintOf, type Labels, type Notice, sorted, timeText } from './notice.ts';

/** How alerts are grouped for a receiver. Times: milliseconds. */
export interface Grouping {
  /** Label names; `...` means all. */
  readonly by: readonly string[];
  readonly wait: number;
  readonly repeatEvery: number;
}

/** A group's notification, without its alerts. */
export interface Group {
  readonly labels: Labels;
  /** Identity of the notification, the same for each attempt. */
  readonly key: string;
  /** Number of alerts that are omitted because of the limits on one notification. */
  readonly left: number;
}

/** Limits on one notification, small enough for common receivers. */
const MAX_ALERTS = 250;
const MAX_BYTES = 256 * 1024;

/** Returns the labels by which an alert is grouped. Like Alertmanager, omits missing labels. */
export const groupLabels = (labels: Labels, { by }: Grouping): Labels =>
  by.includes('...') ? labels : Object.fromEntries(Object.entries(labels).filter(([name]) => by.includes(name)));

/** Formats a group key as Alertmanager does. */
export function groupKey(labels: Labels): string {
  return `{}:{${sorted(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(', ')}}`;
}

/** Returns the first items that stay within a maximum number and total size, but at least one. */
export function firstWithin<T>(
  items: readonly T[],
  maxItems: number,
  maxSize: number,
  sizeOf: (item: T) => number,
): readonly T[] {
  let size = 0;
  const end = items.findIndex((item, index) => {
    size += sizeOf(item);
    return index > 0 && (index >= maxItems || size > maxSize);
  });
  return end < 0 ? items : items.slice(0, end);
}

/** Returns the notification of a group: the latest change of each alert, and all other firing alerts. */
export function toNotification(
  labels: Labels,
  changed: readonly Notice[],
  firing: readonly Notice[],
  at: number,
): { readonly group: Group; readonly notices: readonly Notice[] } {
  const latest = new Map(changed.map(notice => [fingerprintOf(notice.labels), notice]));
  const all = new Map([...latest, ...firing.map(notice => [fingerprintOf(notice.labels), notice] as const)]);
  // A firing alert has newer values than its change, unless the change resolved it or belongs to another episode.
  for (const [fingerprint, notice] of latest) {
    if (notice.status === 'resolved' || all.get(fingerprint)?.startsAt !== notice.startsAt)
      all.set(fingerprint, notice);
  }
  const bytesOf = (notice: Notice) => Buffer.byteLength(JSON.stringify(notice));
  const notices = firstWithin([...all.values()], MAX_ALERTS, MAX_BYTES, bytesOf);
  const [first] = notices;
  const isLone = first !== undefined && all.size === 1 && changed.length > 0;
  const status = notices.some(each => each.status === 'firing') ? 'firing' : 'resolved';
  const key = isLone
    ? `${fingerprintOf(first.labels)}:${first.status}:${timeText(first.startsAt)}`
    : `${fingerprintOf(labels)}:${status}:${timeText(at)}`;
  return { group: { labels, key, left: all.size - notices.length }, notices };
}
