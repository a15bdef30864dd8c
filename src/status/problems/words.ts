import { duration } from '../page/assets/age.js';
import { grouped } from '../page/format.ts';

/** Numbers in sentences about problems: as on pages, but rounded. */

export { grouped as count, plural } from '../page/format.ts';

/** `9 h 12 min`; without seconds from a minute on. */
export const lasting = (seconds: number) => duration(seconds >= 60 ? seconds - (seconds % 60) : Math.floor(seconds));

/** `41 %`, `2.3 %`. */
export const share = (ratio: number) =>
  `${grouped(ratio < 0.1 ? Math.round(ratio * 1000) / 10 : Math.round(ratio * 100))} %`;

/** `10:02:11 UTC`, with the date unless that is the day of `now`. Times in milliseconds since the Unix epoch. */
export function clockTime(time: number, now: number): string {
  const [day, clock] = new Date(time).toISOString().split('T');
  return `${new Date(now).toISOString().startsWith(`${day}T`) ? '' : `${day} `}${clock?.slice(0, 8)} UTC`;
}

/** The window of a change: `in the last hour`, `in 12 min`. */
export const within = (overSeconds: number) =>
  Math.abs(overSeconds - 3600) < 120 ? 'in the last hour' : `in ${lasting(overSeconds)}`;
