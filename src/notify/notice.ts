export type Labels = Readonly<Record<string, string>>;

/** An alert as it is sent. Times: milliseconds since the Unix epoch. */
export interface Notice {
  readonly status: 'firing' | 'resolved';
  /** Identity of the alert. No value is empty. */
  readonly labels: Labels;
  readonly annotations: Labels;
  readonly startsAt: number;
  readonly endsAt?: number | undefined;
  /** Duration (ms) after which the notice expires. If it is set, no resolved notice follows. */
  readonly lasts?: number | undefined;
}

/** Returns Alertmanager's fingerprint of labels: 64-bit FNV-1a of names and values, each followed by the byte 0xFF. */
export function fingerprintOf(labels: Labels): string {
  let [high, low] = [0xcbf29ce4, 0x84222325];
  const add = (byte: number) => {
    low = (low ^ byte) >>> 0;
    // Multiplies by the FNV prime, 2^40 + 0x1b3, modulo 2^64.
    const product = low * 0x1b3;
    high = (high * 0x1b3 + Math.floor(product / 2 ** 32) + low * 256) >>> 0;
    low = product >>> 0;
  };
  for (const [name, value] of sorted(labels)) {
    for (const text of [name, value]) {
      for (const byte of Buffer.from(text)) add(byte);
      add(255);
    }
  }
  return [high, low].map(half => half.toString(16).padStart(8, '0')).join('');
}

export function sorted(labels: Labels): [string, string][] {
  return Object.entries(labels).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

export const timeText = (at: number) => new Date(at).toISOString();
