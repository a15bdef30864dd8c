/** How long this process was kept from running, as its own timer shows: what a busy machine costs, measured. Milliseconds. */
export interface StallMeter {
  /** All that it was late between two moments of the monotonic clock, added up. */
  between(from: number, to: number): number;
  close(): void;
}

const EVERY = 20;
/** Lateness that a quiet machine has, too. */
const USUAL = 5;

export function startStallMeter(): StallMeter {
  const stalls: { readonly at: number; readonly late: number }[] = [];
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    const late = now - last - EVERY;
    if (late > USUAL) stalls.push({ at: now, late });
    last = now;
  }, EVERY);
  return {
    between: (from, to) =>
      stalls.filter(({ at, late }) => at > from && at - late < to).reduce((sum, { late }) => sum + late, 0),
    close: () => clearInterval(timer),
  };
}
