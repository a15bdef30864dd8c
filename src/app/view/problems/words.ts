import { duration } from '../../../http/page/assets/age.js';
import { grouped } from '../../../http/page/format.ts';

/** How sentences about problems write numbers: as the page does, but rounded to what is needed at a glance. */

export { grouped as count, plural } from '../../../http/page/format.ts';

/** `9 h 12 min`: from a minute on without seconds. */
export const lasting = (seconds: number) => duration(seconds >= 60 ? seconds - (seconds % 60) : Math.floor(seconds));

/** `41 %`, `2.3 %`. */
export const share = (ratio: number) =>
  `${grouped(ratio < 0.1 ? Math.round(ratio * 1000) / 10 : Math.round(ratio * 100))} %`;

/** `10:02:11 UTC`, with the date where that is another day than `now`. Times in milliseconds since the Unix epoch. */
export function clockTime(time: number, now: number): string {
  const [day, clock] = new Date(time).toISOString().split('T');
  return `${new Date(now).toISOString().startsWith(`${day}T`) ? '' : `${day} `}${clock?.slice(0, 8)} UTC`;
}

/** The time that a change is known over: `in the last hour`, `in 12 min`. */
export const within = (overSeconds: number) =>
  Math.abs(overSeconds - 3600) < 120 ? 'in the last hour' : `in ${lasting(overSeconds)}`;
