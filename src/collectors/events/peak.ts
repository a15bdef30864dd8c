/** Maximum of a value over the last one to two windows. */
export interface Peak {
  since: number;
  /** Maximum in the current window, and in the previous one. */
  now: number;
  before: number;
}

export const noPeak = (since: number): Peak => ({ since, now: 0, before: 0 });

export const peakOf = ({ now, before }: Peak) => Math.max(now, before);

export function notePeak(peak: Peak, value: number, at: number, window: number): void {
  // The clock may have been set back.
  peak.since = Math.min(peak.since, at);
  if (at - peak.since >= window) Object.assign(peak, { since: at, before: peak.now, now: 0 });
  peak.now = Math.max(peak.now, value);
}
