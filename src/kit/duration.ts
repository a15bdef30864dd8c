import { z } from 'zod';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: MINUTE, h: HOUR, d: DAY };
const ALLOWED = 'a duration: a whole number and one of ms, s, m, h, d, such as 500ms, 15s or 4h';

/** Parses a duration such as `15s` to milliseconds. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,11})(ms|s|m|h|d)$/.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * (UNITS[match[2] as string] as number);
}

/** Formats milliseconds exactly: 90000 is `90s`, 3600000 is `1h`. */
export function formatDuration(ms: number): string {
  const [unit, size] = Object.entries(UNITS).findLast(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}

const LARGE_UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
] as const;

/** Duration (s) from which a text with two units contains no seconds. */
const COARSE = 600;

/**
 * Formats seconds in the two largest units: `158 ms`, `8.5 s`, `1 min 31 s`, `12 min`, `9 h 12 min`. With more `units`, always
 * includes seconds. `status/page/assets/age.js` uses the same format.
 */
export function durationText(seconds: number, units = 2): string {
  if (seconds < 0) return `−${durationText(-seconds, units)}`;
  if (seconds > 0 && seconds < 1) return `${Math.min(999, Math.max(1, Math.round(seconds * 1000)))} ms`;
  if (seconds < 10) return `${Math.floor(seconds * 10 + 1e-6) / 10} s`;
  const all = units > 2 || seconds < COARSE ? [...LARGE_UNITS, ['s', 1] as const] : LARGE_UNITS;
  const first = all.findIndex(([, size]) => seconds >= size);
  let rest = seconds;
  const parts = all.slice(first, first + units).flatMap(([unit, size]) => {
    const number = Math.floor(rest / size);
    rest -= number * size;
    return number === 0 ? [] : [`${number} ${unit}`];
  });
  return parts.join(' ');
}

const LONG_UNITS = [
  ['day', DAY],
  ['hour', HOUR],
  ['minute', MINUTE],
  ['second', 1000],
] as const;

/** Formats milliseconds exactly, in the largest unit without a fraction, for documents: `15 minutes`. */
export function longText(ms: number): string {
  const [unit, size] = LONG_UNITS.find(([, size]) => ms % size === 0) ?? ['ms', 1];
  const number = ms / size;
  return `${number} ${unit}${number === 1 || unit === 'ms' ? '' : 's'}`;
}

/** Formats a time and its limit (s), with more units if they would look equal. */
export function durationTexts(time: number, limit: number): readonly [time: string, limit: string] {
  const texts = (units: number) => [durationText(time, units), durationText(limit, units)] as const;
  return [texts(2), texts(3)].find(([first, second]) => first !== second) ?? texts(4);
}

const INSTANT = /^(\d{4}-\d\d-\d\d)([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/;

/** Parses a time or a day to ms since the Unix epoch. The default time zone is UTC. */
export function parseInstant(text: string): number | undefined {
  const [, day = '', time, , , offset] = INSTANT.exec(text) ?? [];
  const midnight = Date.parse(day);
  // Date.parse accepts February 31.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(day)) return undefined;
  const at = Date.parse(time === undefined || offset !== undefined ? text : `${text}Z`);
  return Number.isNaN(at) ? undefined : at;
}

const MAX_DURATION = 366 * DAY;

function durationOf(isAllowed: (ms: number) => boolean, range: string) {
  return z
    .string({ error: `must be ${ALLOWED}` })
    .meta({ pattern: '^\\d{1,11}(ms|s|m|h|d)$' })
    .transform((text, context) => {
      const ms = parseDuration(text);
      if (ms === undefined || !isAllowed(ms)) {
        context.addIssue(`must be ${ALLOWED}, ${range}`);
        return z.NEVER;
      }
      return ms;
    });
}

export const Duration = durationOf(ms => ms > 0 && ms <= MAX_DURATION, 'above 0 and at most 366d');

/** Like `Duration`; `0s` means off. */
export const DurationOrZero = durationOf(ms => ms <= MAX_DURATION, 'at most 366d');
