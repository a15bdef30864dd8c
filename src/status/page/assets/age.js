/** Formats durations and ages. The server renders them, and the client script updates them every second. */

const UNITS = /** @type {const} */ ([
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
]);

/** Formats a duration (s) in its two largest units: `3 h 12 min`. @type {(seconds: number) => string} */
export function duration(seconds) {
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds > 0 && seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${Math.floor(seconds * 10) / 10} s`;
  const whole = Math.floor(seconds);
  const first = UNITS.findIndex(([, size]) => whole >= size);
  let left = whole;
  const parts = UNITS.slice(first, first + 2).map(([unit, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count === 0 ? '' : `${count} ${unit}`;
  });
  return parts.filter(part => part !== '').join(' ');
}

/** Drops the seconds of a duration between a minute and an hour: they would change all the time. @type {(seconds: number) => number} */
export const toMinute = seconds => (seconds >= 60 && seconds < 3600 ? seconds - (seconds % 60) : seconds);

/** Formats the distance of a time (ms) from now: `3 h 12 min ago`, `in 5 min`. @type {(time: number, now: number) => string} */
export function age(time, now) {
  const seconds = Math.floor(Math.abs(now - time) / 1000);
  if (seconds < 1) return 'now';
  const text = duration(toMinute(seconds));
  return now >= time ? `${text} ago` : `in ${text}`;
}
