import { durationText, longText } from '../../kit/duration.ts';
import { percent } from '../../kit/text.ts';
import type { Growth } from '../../metrics/thresholds.ts';

export { durationText, longText } from '../../kit/duration.ts';
export { grouped as count, percent, plural } from '../../kit/text.ts';

/** Formats a time (ms since the Unix epoch) as `10:02:11 UTC`, preceded by the date unless it is the date of `now`. */
export function clockTime(time: number, now: number): string {
  const [day, clock] = new Date(time).toISOString().split('T');
  return `${new Date(now).toISOString().startsWith(`${day}T`) ? '' : `${day} `}${clock?.slice(0, 8)} UTC`;
}

/** Describes the window of a condition (ms): `in the last 15 minutes`, `in the last hour`. For documents. */
export const inLast = (ms: number) => `in the last ${longText(ms).replace(/^1 /, '')}`;

/** Describes the limit of a growth: `20 % (minimum 20, maximum 50 messages)`. For documents. */
export const growthText = ({ share: of, fewest, many }: Growth) =>
  `${percent(of)} (minimum ${fewest}, maximum ${many} messages)`;

/** Describes the window of a change: `in the last hour`, `in 12 min`. */
export const within = (overSeconds: number) =>
  Math.abs(overSeconds - 3600) < 120 ? 'in the last hour' : `in ${durationText(overSeconds)}`;
