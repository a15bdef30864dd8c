import { expect, it } from 'vitest';
import { askedWait } from '../../src/upstream/errors.ts';

const NOW = Date.UTC(2026, 0, 1);
const date = (ms: number) => new Date(NOW + ms).toUTCString();

it.each([
  ['a refusal that says nothing', 429, {}, 1000],
  ['seconds', 429, { 'retry-after': '7' }, 7000],
  ["a date, by the service's own clock", 429, { 'retry-after': date(95_000), date: date(90_000) }, 5000],
  ['a date without a clock to compare', 429, { 'retry-after': date(5000) }, 1000],
  ['rubbish', 429, { 'retry-after': 'soon' }, 1000],
  ['a reset in seconds', 429, { 'burst-ratelimit-reset': String(NOW / 1000 + 3) }, 3000],
  ['a reset in milliseconds', 429, { 'burst-ratelimit-reset': String(NOW + 250) }, 250],
  ['a reset that is past', 429, { 'burst-ratelimit-reset': String(NOW / 1000 - 3) }, 1000],
  ['a reset in the far future', 429, { 'burst-ratelimit-reset': String(NOW + 1e9) }, 60_000],
  ['both', 429, { 'retry-after': '2', 'burst-ratelimit-reset': String(NOW + 250) }, 2000],
  ['a fault that says when to return', 503, { 'retry-after': '30' }, 30_000],
  ['a fault that does not', 503, {}, undefined],
  [
    'the last request of a burst',
    200,
    { 'burst-ratelimit-remaining': '0', 'burst-ratelimit-reset': String(NOW + 400) },
    400,
  ],
  [
    'a burst with some left',
    200,
    { 'burst-ratelimit-remaining': '1', 'burst-ratelimit-reset': String(NOW + 400) },
    undefined,
  ],
  ['an answer like any other', 200, {}, undefined],
] as const)('%s', (_what, status, headers, wait) => expect(askedWait(status, headers, NOW)).toBe(wait));
