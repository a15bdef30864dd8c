import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { LABEL_NAME } from '../kit/label-name.ts';
import { Secret, secret } from '../kit/secret.ts';

const httpUrl = z.string().refine(
  text => {
    const url = URL.parse(text);
    return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#\s]/.test(text);
  },
  { error: 'must be an http or https address without user, query or fragment' },
);

/** The place in an address where the region stands. */
const REGION = '{region}';

const regionalUrl = z.string().refine(text => httpUrl.safeParse(text.replace(REGION, 'region')).success, {
  error: 'must be an http or https address without user, query or fragment, which may hold {region}',
});

/** Whether text is the address of a proxy. */
const isProxy = (text: string) => /^https?:$/.test(URL.parse(text)?.protocol ?? '');
const NO_PROXY_ADDRESS = 'must be an http or https address';

const proxy = z
  .union([z.strictObject({ env: z.string().min(1) }), z.string()], { error: 'must be { env: NAME } or an address' })
  .transform((value, context) => {
    if (typeof value !== 'string') return value;
    // It may hold a password.
    if (isProxy(value)) return { literal: new Secret(value) };
    context.addIssue({ code: 'custom', message: NO_PROXY_ADDRESS });
    return z.NEVER;
  });

export type ProxySetting = z.output<typeof proxy>;

/** Why a setting can't give a proxy now; undefined when it can. */
export function faultOfProxy(
  setting: ProxySetting,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if ('literal' in setting) return undefined;
  const text = env[setting.env];
  if (!text) return `the environment variable ${setting.env} is not set`;
  return isProxy(text) ? undefined : `the environment variable ${setting.env} ${NO_PROXY_ADDRESS}`;
}

export const upstreamOptions = z.strictObject({
  proxy: proxy
    .nullable()
    .default(null)
    .describe(
      'Address of an HTTP proxy, which may hold user and password: `{ env: HTTPS_PROXY }` or the text. The environment is not asked without it.',
    ),
  noProxy: z
    .array(z.string().min(1))
    .default([])
    .describe('Hosts that are reached without the proxy: `host`, `.domain`, `host:port` or `*`.'),
  caFile: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('Certificates (PEM) to trust beside those that Node.js trusts. Read at start.'),
  connectTimeout: Duration.prefault('5s').describe('Longest time to connect to the service.'),
  timeout: Duration.prefault('30s').describe('Longest time for one whole request.'),
});

export type UpstreamOptions = z.output<typeof upstreamOptions>;

/** Share of a day's requests that only actions may use. */
const KEPT_FOR_ACTIONS = 0.1;

/** Requests of one UTC day that reading may use. */
export function mostForReading({ requestsPerDay }: { readonly requestsPerDay: number }): number {
  return Math.max(1, Math.floor(requestsPerDay * (1 - KEPT_FOR_ACTIONS)));
}

const budgetOptions = z.strictObject({
  requestsPerSecond: z.number().positive().max(10_000).default(5).describe('Steady rate of requests to the service.'),
  burst: z.int().min(1).max(10_000).default(10).describe('Requests that may go at once after a quiet time.'),
  concurrency: z.int().min(1).max(1000).default(4).describe('Requests under way at the same time.'),
  requestsPerDay: z
    .int()
    .min(1)
    .default(200_000)
    .describe(
      'Requests in one UTC day. The rate falls where they would not last the day; a tenth is kept for actions; when the others are used up, collecting pauses until 00:00 UTC.',
    ),
});

/** What one account may cost. */
export type BudgetOptions = z.output<typeof budgetOptions>;

const KEY = '{flowControlKey}';

const keyPath = z.string().refine(
  text => {
    const [before = '', after, ...rest] = text.split(KEY);
    // A whole segment of its own, so that no key can make it another path.
    return (
      after !== undefined && rest.length === 0 && /^\/([\w.~-]+\/)+$/.test(before) && /^(\/[\w.~-]+)*$/.test(after)
    );
  },
  { error: `must be a path such as /v2/flowControl/${KEY}, with ${KEY} once, between slashes` },
);

/** Not the one that may rotate the keys that sign, nor one that another path could be read from. */
const eventsPath = z.string().regex(/^(auto|(?!.*\/keys\/rotate$)(\/(?!\.{1,2}(\/|$))[\w.~-]+)+)$/, {
  error: 'must be auto, or a path such as /v2/logs',
});

const pathOptions = z.strictObject({
  events: eventsPath
    .default('auto')
    .describe(
      'Path of the event log. `auto`: `/v2/events`, or `/v2/logs` where the service does not know that (404 or 405); the one that answered is asked first until the agent ends.',
    ),
  flowControlKey: keyPath
    .default(`/v2/flowControl/${KEY}`)
    .describe(`Path of a single flow-control key. Some documentation has \`/v2/keys/rotate/${KEY}\`.`),
});

const retentionOptions = z.strictObject({
  dlq: Duration.nullable().default(null).describe('How long the plan keeps messages in the dead-letter queue.'),
  events: Duration.nullable().default(null).describe('How long the plan keeps events in the log.'),
});

const managementOptions = z.strictObject({
  baseUrl: httpUrl.describe('Address of the account management, without `/svc`.'),
  username: z
    .string()
    .regex(/^[\x21-\x39\x3b-\x7e]+$/, { error: 'must be visible ASCII characters, without blanks and colons' })
    .describe('Name to log in with.'),
  password: secret.describe(
    'Password to log in with: `{ env: NAME }`, `{ file: PATH }` (replaced when a reset brings a new one) or the text itself (works, and warns).',
  ),
});

const TAKEN = ['account', 'plan', 'state'];

const labelsOptions = z.record(
  z.string().refine(name => LABEL_NAME.test(name) && !TAKEN.includes(name), {
    error: `must be a label name other than ${TAKEN.join(', ')}`,
  }),
  z.string(),
);

export const accountOptions = z
  .strictObject({
    name: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ -' })
      .describe('Value of the label `account`; unique.'),
    baseUrl: httpUrl.describe("The service's base address, without `/v2`."),
    regionalBaseUrl: regionalUrl
      .nullable()
      .default(null)
      .describe('Address of the operations that belong to a region, with `{region}` in it or not. Default: `baseUrl`.'),
    region: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 -' })
      .nullable()
      .default(null)
      .describe('What stands for `{region}`.'),
    token: secret.describe(
      'Bearer token: `{ env: NAME }`, `{ file: PATH }` (read again when it changes) or the text itself (works, and warns).',
    ),
    actionToken: secret
      .nullable()
      .default(null)
      .describe(
        'Token that may write, as `token`, where that one may only read. Used to cancel alone, and read only when a rule may do so. Default: `token`.',
      ),
    management: managementOptions
      .nullable()
      .default(null)
      .describe('Login to the account management, for `rotate-token` alone: the agent never uses it.'),
    labels: labelsOptions
      .default({})
      .describe('Labels of `delivery_account_info`, to join with: `{ team: payments }`.'),
    retention: retentionOptions.prefault({}).describe('What the plan of the account keeps, where you know it.'),
    budget: budgetOptions.prefault({}).describe('What this account may cost, shared by all that is read for it.'),
    paths: pathOptions.prefault({}).describe('Where an operation is found, where that differs.'),
  })
  .superRefine(({ regionalBaseUrl, region }, context) => {
    if (region === null && regionalBaseUrl?.includes(REGION)) {
      context.addIssue({ code: 'custom', path: ['region'], message: `is required: regionalBaseUrl holds ${REGION}` });
    }
  });

/** Where an account's operations are found. */
export function addressesOf({ baseUrl, regionalBaseUrl, region }: z.output<typeof accountOptions>): {
  base: string;
  regional: string;
} {
  return { base: baseUrl, regional: regionalBaseUrl?.replace(REGION, () => region ?? '') ?? baseUrl };
}
