import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { toToken } from './token.ts';

export const upstreamOptions = z.strictObject({
  connectTimeout: Duration.prefault('5s').describe('Longest time to connect to the service.'),
  timeout: Duration.prefault('30s').describe('Longest time for one whole request.'),
});

/** What is said of text that can't be a token. */
const NO_TOKEN = 'must be visible ASCII characters, without blanks inside';

const httpUrl = z.string().refine(
  text => {
    const url = URL.parse(text);
    return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#\s]/.test(text);
  },
  { error: 'must be an http or https address without user, query or fragment' },
);

/** Where a secret comes from. Text given in place is hidden at once, so that no print of the configuration shows it. */
const secret = z
  .union([z.strictObject({ env: z.string().min(1) }), z.strictObject({ file: z.string().min(1) }), z.string().min(1)], {
    error: 'must be { env: NAME }, { file: PATH } or the secret itself as text',
  })
  .transform((value, context) => {
    if (typeof value !== 'string') return value;
    const literal = toToken(value);
    if (literal) return { literal };
    context.addIssue({ code: 'custom', message: NO_TOKEN });
    return z.NEVER;
  });

export type SecretSetting = z.output<typeof secret>;

/** Why a setting can't give a secret now; undefined when it can. Files are read when they are needed. */
export function faultOfSecret(
  setting: SecretSetting,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (!('env' in setting)) return undefined;
  const text = env[setting.env];
  if (!text) return `the environment variable ${setting.env} is not set`;
  return toToken(text) ? undefined : `the environment variable ${setting.env} ${NO_TOKEN}`;
}

export const budgetOptions = z.strictObject({
  requestsPerSecond: z.number().positive().max(10_000).default(5).describe('Steady rate of requests to the service.'),
  burst: z.int().min(1).max(10_000).default(10).describe('Requests that may go at once after a quiet time.'),
  concurrency: z.int().min(1).max(1000).default(4).describe('Requests under way at the same time.'),
  requestsPerDay: z
    .int()
    .min(1)
    .default(200_000)
    .describe(
      'Requests in one UTC day. The rate falls where they would not last the day; when they are used up, collecting pauses until 00:00 UTC.',
    ),
});

export const accountOptions = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ -' })
    .describe('Value of the label `account`; unique.'),
  baseUrl: httpUrl.describe("The service's base address, without `/v2`."),
  token: secret.describe(
    'Bearer token: `{ env: NAME }`, `{ file: PATH }` (read again when it changes) or the text itself (works, and warns).',
  ),
  budget: budgetOptions.prefault({}).describe('What this account may cost, shared by all that is read for it.'),
});
