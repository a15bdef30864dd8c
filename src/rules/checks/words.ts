import { grouped } from '../../kit/text.ts';

/** Formats numbers for sentences: as on pages, but rounded. */

export { grouped as count, plural } from '../../kit/text.ts';

const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
] as const;

/** Formats a duration (s) in its two largest units: `9 h 12 min`. Seconds are shown only below a minute. */
export function durationText(seconds: number): string {
  if (seconds < 0) return `−${durationText(-seconds)}`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  let rest = seconds;
  const parts = UNITS.slice(first, first + 2).flatMap(([unit, size]) => {
    const number = Math.floor(rest / size);
    rest -= number * size;
    return number === 0 ? [] : [`${number} ${unit}`];
  });
  return parts.join(' ');
}

/** Formats a ratio as `41 %` or `2.3 %`. */
export const share = (ratio: number) =>
  `${grouped(ratio < 0.1 ? Math.round(ratio * 1000) / 10 : Math.round(ratio * 100))} %`;

/** Formats a time as `10:02:11 UTC`, with the date unless it is the day of `now`. Times in milliseconds since the Unix epoch. */
export function clockTime(time: number, now: number): string {
  const [day, clock] = new Date(time).toISOString().split('T');
  return `${new Date(now).toISOString().startsWith(`${day}T`) ? '' : `${day} `}${clock?.slice(0, 8)} UTC`;
}

/** Describes the window of a change: `in the last hour`, `in 12 min`. */
export const within = (overSeconds: number) =>
  Math.abs(overSeconds - 3600) < 120 ? 'in the last hour' : `in ${durationText(overSeconds)}`;
