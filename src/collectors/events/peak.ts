/** The greatest value of the last while, at least one `window` of it and at most two. Changed in place, and stored. */
export interface Peak {
  since: number;
  /** Greatest within the window, and within the one before it. */
  now: number;
  before: number;
}

export const noPeak = (since: number): Peak => ({ since, now: 0, before: 0 });

export const peakOf = ({ now, before }: Peak) => Math.max(now, before);

export function notePeak(peak: Peak, value: number, at: number, window: number): void {
  // A clock may have been set back.
  peak.since = Math.min(peak.since, at);
  if (at - peak.since >= window) Object.assign(peak, { since: at, before: peak.now, now: 0 });
  peak.now = Math.max(peak.now, value);
}
