/** Measures how long this process was prevented from running (ms), based on the delay of a timer. */
export interface StallMeter {
  /** Returns the total delay between two times of the monotonic clock. */
  between(from: number, to: number): number;
  close(): void;
}

const EVERY = 20;
/** Delay of the timer on an idle machine (ms). */
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
