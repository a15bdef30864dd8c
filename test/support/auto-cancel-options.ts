import { autoCancelOptions } from '../../src/auto-cancel/options.ts';

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Returns a rule in configuration format, with defaults for values that the tests ignore. */
export const rule = (name: string, more: object = {}) => ({
  name,
  match: { label: { in: ['x'] } },
  mode: 'enforce',
  expires: '2030-01-01',
  grace: '0s',
  limits: { perRun: 100, perHour: 100 },
  cooldown: { perUrl: '0s' },
  ...more,
});

const WIDE = { perRun: 100, perHour: 100, perDay: 100, spacing: '0s' };
const NEVER_TRIPS = {
  candidates: { max: 1000, percent: 100 },
  errors: { max: 1000 },
  lostRaces: { percent: 100, ofLast: 1000 },
};

/** Parses an auto-cancel section. Limits and breakers never apply unless `section` sets them. */
export function optionsOf(section: object) {
  return autoCancelOptions.parse({ mode: 'enforce', limits: WIDE, breaker: NEVER_TRIPS, ...section });
}
