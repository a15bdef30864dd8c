import { fingerprintOf, type Notice, sorted, timeText } from './notice.ts';

type Labels = Readonly<Record<string, string>>;

/** How a receiver wants alerts together. Times: milliseconds. */
export interface Grouping {
  /** Label names; `...` means all. */
  readonly by: readonly string[];
  readonly wait: number;
  readonly repeatEvery: number;
}

/** What is sent of a group at a time, beside its alerts. */
export interface Group {
  readonly labels: Labels;
  /** The same for the same notification, however often it is tried. */
  readonly key: string;
  readonly left: number;
}

/** Alerts of one notification at most, and bytes of them, roughly: what receivers usually take. */
const MOST_ALERTS = 250;
const MOST_BYTES = 256 * 1024;

/** The labels by which an alert is grouped. As Alertmanager has it, those that it does not have are left out. */
export const groupLabels = (labels: Labels, { by }: Grouping): Labels =>
  by.includes('...') ? labels : Object.fromEntries(Object.entries(labels).filter(([name]) => by.includes(name)));

/** Alertmanager's way to write a group; the same for as long as the configuration is. */
export function groupKey(labels: Labels): string {
  return `{}:{${sorted(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(', ')}}`;
}

function fitting(notices: readonly Notice[]): readonly Notice[] {
  let bytes = 0;
  const end = notices.findIndex((notice, index) => {
    bytes += Buffer.byteLength(JSON.stringify(notice));
    return index > 0 && (index >= MOST_ALERTS || bytes > MOST_BYTES);
  });
  return end < 0 ? notices : notices.slice(0, end);
}

/** Builds the notification of a group: the latest change of each alert, and its other firing alerts. */
export function toNotification(
  labels: Labels,
  changed: readonly Notice[],
  firing: readonly Notice[],
  at: number,
): { readonly group: Group; readonly notices: readonly Notice[] } {
  const latest = new Map(changed.map(notice => [fingerprintOf(notice.labels), notice]));
  const all = new Map([...latest, ...firing.map(notice => [fingerprintOf(notice.labels), notice] as const)]);
  // What is known of an alert that fires is newer than what was known when it began; an end is an end.
  for (const [fingerprint, notice] of latest) {
    if (notice.status === 'resolved' || all.get(fingerprint)?.startsAt !== notice.startsAt)
      all.set(fingerprint, notice);
  }
  const notices = fitting([...all.values()]);
  const [first] = notices;
  const isLone = first !== undefined && all.size === 1 && changed.length > 0;
  const status = notices.some(each => each.status === 'firing') ? 'firing' : 'resolved';
  const key = isLone
    ? `${fingerprintOf(first.labels)}:${first.status}:${timeText(first.startsAt)}`
    : `${fingerprintOf(labels)}:${status}:${timeText(at)}`;
  return { group: { labels, key, left: all.size - notices.length }, notices };
}
