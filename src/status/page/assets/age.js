/** Formats durations and ages. The server renders them, and the client script updates them every second. */

const UNITS = /** @type {const} */ ([
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
]);

/** Duration from which seconds are omitted (s). */
const COARSE = 600;

/** Formats a duration (s) like `durationText` of `kit/duration.ts`: `1 min 31 s`, `3 h 12 min`. @type {(seconds: number) => string} */
export function duration(seconds) {
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds > 0 && seconds < 1) return `${Math.min(999, Math.max(1, Math.round(seconds * 1000)))} ms`;
  if (seconds < 10) return `${Math.floor(seconds * 10 + 1e-6) / 10} s`;
  const whole = seconds < COARSE ? Math.floor(seconds) : seconds - (seconds % 60);
  const first = UNITS.findIndex(([, size]) => whole >= size);
  let left = whole;
  const parts = UNITS.slice(first, first + 2).map(([unit, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count === 0 ? '' : `${count} ${unit}`;
  });
  return parts.filter(part => part !== '').join(' ');
}

/** Formats the distance of a time (ms) from now: `3 h 12 min ago`, `in 5 min`. @type {(time: number, now: number) => string} */
export function age(time, now) {
  const seconds = Math.floor(Math.abs(now - time) / 1000);
  if (seconds < 1) return 'now';
  const text = duration(seconds);
  return now >= time ? `${text} ago` : `in ${text}`;
}
