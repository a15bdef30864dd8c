import { expect, it } from 'vitest';
import { requestedWait } from '../../src/upstream/errors.ts';

const NOW = Date.UTC(2026, 0, 1);
const date = (ms: number) => new Date(NOW + ms).toUTCString();

it.each([
  ['429 without a header', 429, {}, 1000],
  ['seconds', 429, { 'retry-after': '7' }, 7000],
  ["a date, by the service's own clock", 429, { 'retry-after': date(95_000), date: date(90_000) }, 5000],
  ['a date without the service’s clock', 429, { 'retry-after': date(5000) }, 5000],
  ['a date with an unusable clock', 429, { 'retry-after': date(5000), date: 'today' }, 5000],
  ['a fraction of a second', 429, { 'retry-after': '12.5' }, 12_500],
  ['a list', 429, { 'retry-after': '3, 3' }, 1000],
  ['no wait', 429, { 'retry-after': '0' }, 1000],
  ['a negative wait', 429, { 'retry-after': '-5' }, 1000],
  ['a date in the past', 429, { 'retry-after': date(-5000) }, 1000],
  ['no wait, but a reset', 429, { 'retry-after': '0', 'burst-ratelimit-reset': String(NOW + 250) }, 250],
  ['an error that asks for no wait', 503, { 'retry-after': '0' }, 0],
  ['an error with an unusable wait', 503, { 'retry-after': 'soon' }, undefined],
  ['an unparsable value', 429, { 'retry-after': 'soon' }, 1000],
  ['a reset in seconds', 429, { 'burst-ratelimit-reset': String(NOW / 1000 + 3) }, 3000],
  ['a reset in milliseconds', 429, { 'burst-ratelimit-reset': String(NOW + 250) }, 250],
  ['a reset in the past', 429, { 'burst-ratelimit-reset': String(NOW / 1000 - 3) }, 1000],
  ['a reset in the far future', 429, { 'burst-ratelimit-reset': String(NOW + 1e9) }, 60_000],
  ['Retry-After and a reset', 429, { 'retry-after': '2', 'burst-ratelimit-reset': String(NOW + 250) }, 2000],
  ['an error with Retry-After', 503, { 'retry-after': '30' }, 30_000],
  ['an error without Retry-After', 503, {}, undefined],
  [
    'the last request of a burst',
    200,
    { 'burst-ratelimit-remaining': '0', 'burst-ratelimit-reset': String(NOW + 400) },
    400,
  ],
  [
    'a burst with requests left',
    200,
    { 'burst-ratelimit-remaining': '1', 'burst-ratelimit-reset': String(NOW + 400) },
    undefined,
  ],
  ['an ordinary response', 200, {}, undefined],
] as const)('requestedWait returns the retry delay for %s', (_what, status, headers, wait) =>
  expect(requestedWait(status, headers, NOW)).toBe(wait),
);
