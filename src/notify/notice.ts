export type Labels = Readonly<Record<string, string>>;

/** An alert as it is sent. Times: milliseconds since the Unix epoch. */
export interface Notice {
  readonly status: 'firing' | 'resolved';
  /** Identity of the alert. No value is empty. */
  readonly labels: Labels;
  readonly annotations: Labels;
  /** Start of the cause. */
  readonly startsAt: number;
  /** When the alert began to fire, if that is later than `startsAt`. */
  readonly firedAt?: number | undefined;
  readonly endsAt?: number | undefined;
  /** Duration (ms) after which the notice expires. If it is set, no resolved notice follows. */
  readonly lasts?: number | undefined;
  /** Whether the firing alert is silenced or its state is unknown: it is neither sent nor resolved. */
  readonly isSuppressed?: boolean | undefined;
}

/** Caches results by labels object, because every pass looks up every alert. The objects must not change. */
function cached(find: (labels: Labels) => string): (labels: Labels) => string {
  const known = new WeakMap<Labels, string>();
  return labels => {
    const found = known.get(labels) ?? find(labels);
    known.set(labels, found);
    return found;
  };
}

/** Returns Alertmanager's fingerprint of labels. */
export const fingerprintOf = cached(hashOf);

/** Returns the 64-bit FNV-1a of names and values, each followed by the byte 0xFF. */
function hashOf(labels: Labels): string {
  let hash = 0xcbf29ce484222325n;
  for (const text of sorted(labels).flat()) {
    for (const byte of [...Buffer.from(text), 0xff]) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, '0');
}

export function sorted(labels: Labels): [string, string][] {
  return Object.entries(labels).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

export const timeText = (at: number) => new Date(at).toISOString();

/** How alerts are grouped for a receiver. Times: milliseconds. */
export interface Grouping {
  /** Label names; `...` means all. */
  readonly by: readonly string[];
  readonly wait: number;
  readonly repeatEvery: number;
}

/** Returns the labels by which an alert is grouped. Like Alertmanager, omits missing labels. */
export const groupLabels = (labels: Labels, { by }: Pick<Grouping, 'by'>): Labels =>
  by.includes('...') ? labels : Object.fromEntries(Object.entries(labels).filter(([name]) => by.includes(name)));

/** Returns a function that maps an alert's labels to the id of its group. */
export const groupIds = (grouping: Grouping) => cached(labels => fingerprintOf(groupLabels(labels, grouping)));

/** Formats a group key as Alertmanager does. */
export function groupKey(labels: Labels): string {
  return `{}:{${sorted(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(', ')}}`;
}
