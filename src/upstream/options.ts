import { isIPv6 } from 'node:net';
import { z } from 'zod';
import { DAY, Duration } from '../kit/duration.ts';
import { httpUrl } from '../kit/http-url.ts';
import { EntryName, intOption } from '../kit/option.ts';
import { type Env, envError, Secret, secret } from '../kit/secret.ts';
import { LABEL_NAME, percent } from '../kit/text.ts';
import { ACCOUNT_LIMITS, type AccountLimit, type AccountLimits } from '../model/account.ts';

/** Source of the limits below: https://upstash.com/pricing/qstash, as published in upstash/upstash-web on this day. */
export const PUBLIC_PLANS_AS_OF = '2026-08-21';

const PLAN_NAMES = ['free', 'pay_as_you_go', 'fixed_1m', 'fixed_10m'] as const;

interface PublicPlan {
  readonly title: string;
  /** An absent limit is unlimited. `requests_per_day` counts messages. */
  readonly limits: Readonly<Partial<Record<AccountLimit, number>>>;
  /** Times (ms). */
  readonly retention: { readonly dlq: number; readonly events: number };
}

/** Published limits of the service's plans. Limits of enterprise plans are individual. */
export const PUBLIC_PLANS: Readonly<Record<(typeof PLAN_NAMES)[number], PublicPlan>> = {
  free: {
    title: 'free',
    limits: { requests_per_day: 1000, global_parallelism: 10, queues: 10, schedules: 10, topics: 1 },
    retention: { dlq: 3 * DAY, events: 3 * DAY },
  },
  pay_as_you_go: {
    title: 'pay as you go',
    limits: { global_parallelism: 100, queues: 100, schedules: 1000, topics: 100 },
    retention: { dlq: 7 * DAY, events: 7 * DAY },
  },
  fixed_1m: {
    title: 'fixed 1M',
    limits: {
      requests_per_day: 1_000_000,
      global_parallelism: 200,
      queues: 1000,
      schedules: 10_000,
      topics: 1000,
    },
    retention: { dlq: 30 * DAY, events: 14 * DAY },
  },
  fixed_10m: {
    title: 'fixed 10M',
    limits: {
      requests_per_day: 10_000_000,
      global_parallelism: 1000,
      queues: 1000,
      schedules: 50_000,
      topics: 2000,
    },
    retention: { dlq: 90 * DAY, events: 14 * DAY },
  },
};

const REGION = '{region}';

const regionalUrl = z.string().refine(text => httpUrl.safeParse(text.replace(REGION, 'region')).success, {
  error: 'must be an http or https address without user, query or fragment, and may contain {region}',
});

const isProxy = (text: string) => /^https?:$/.test(URL.parse(text)?.protocol ?? '');
const NO_PROXY_ADDRESS = 'must be an http or https address';

const proxy = z
  .union([z.strictObject({ env: z.string().min(1) }), z.string()], { error: 'must be { env: NAME } or an address' })
  .transform((value, context) => {
    if (typeof value !== 'string') return value;
    // The address may contain a password.
    if (isProxy(value)) return { literal: new Secret(value) };
    context.addIssue(NO_PROXY_ADDRESS);
    return z.NEVER;
  });

/** Returns why a proxy setting cannot be used; undefined if it can. */
export const proxyError = (setting: z.output<typeof proxy>, env: Env): string | undefined =>
  'env' in setting ? envError(setting.env, env, text => (isProxy(text) ? undefined : NO_PROXY_ADDRESS)) : undefined;

/** Whether undici can match the entry, which it compares with the hosts of normalized URLs. */
function isNoProxy(text: string): boolean {
  if (/^\*(:\d+)?$/.test(text)) return true;
  const address = isIPv6(text) ? `[${text}]` : text.replace(/^\*?\./, '');
  const host = address.replace(/(?<=^[^:]+|\]):\d+$/, '').toLowerCase();
  return !host.includes('*') && URL.parse(`http://${address}`)?.hostname === host;
}

export const upstreamOptions = z.strictObject({
  proxy: proxy
    .nullable()
    .default(null)
    .describe(
      'HTTP proxy: `{ env: HTTPS_PROXY }` or a URL, with user and password if needed. Without this setting, the agent ignores HTTP_PROXY and HTTPS_PROXY.',
    ),
  noProxy: z
    .array(
      z.string().refine(text => text.split(/[,\s]+/).every(isNoProxy), {
        error:
          'must be a host, an address, .domain or *.domain, without scheme and range, with an optional :port; or *',
      }),
    )
    .default([])
    .describe(
      'Hosts to connect to without the proxy. `example.com` and `.example.com` include subdomains, `*.example.com` matches only subdomains, and `*` matches every host. IP addresses and a final `:port` are allowed.',
    ),
  caFile: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe('PEM file with additional CA certificates, reloaded when it changes.'),
  connectTimeout: Duration.prefault('5s').describe('Timeout for connecting to the service.'),
  timeout: Duration.prefault('30s').describe(
    'Timeout for a request, including the connection and all retries. Waiting for the request budget before the first attempt does not count.',
  ),
});

export type UpstreamOptions = z.output<typeof upstreamOptions>;

/** Share of a day's requests that only actions may use. */
export const KEPT_FOR_ACTIONS = 0.1;

export function maxForReading({ requestsPerDay }: { readonly requestsPerDay: number }): number {
  return Math.max(1, Math.floor(requestsPerDay * (1 - KEPT_FOR_ACTIONS)));
}

const budgetOptions = z.strictObject({
  requestsPerSecond: z.number().positive().max(10_000).default(5).describe('Maximum sustained request rate.'),
  burst: intOption({ min: 1, max: 10_000, otherwise: 10 }).describe(
    'Number of requests that may be sent at once after an idle period.',
  ),
  concurrency: intOption({ min: 1, max: 1000, otherwise: 4 }).describe('Maximum number of concurrent requests.'),
  requestsPerDay: z
    .int()
    .min(1)
    .default(200_000)
    .describe(
      `Maximum number of requests per UTC day. ${percent(KEPT_FOR_ACTIONS)} of them are reserved for auto-cancel. The agent lowers its request rate so that the budget lasts all day.`,
    ),
});

export type BudgetOptions = z.output<typeof budgetOptions>;

const KEY = '{flowControlKey}';

const keyPath = z.string().refine(
  text => {
    const [before = '', after, ...rest] = text.split(KEY);
    // The key must be a complete segment, so that no key can change the path.
    return (
      after !== undefined && rest.length === 0 && /^\/([\w.~-]+\/)+$/.test(before) && /^(\/[\w.~-]+)*$/.test(after)
    );
  },
  { error: `must be a path such as /v2/flowControl/${KEY}, with ${KEY} once, between slashes` },
);

/** Whether a request to this path, with any method, may rotate the keys that sign messages. */
export const rotatesKeys = (path: string) => /\/keys\/rotate\/*$/i.test(path);
const ROTATES_KEYS = 'must not be /v2/keys/rotate: a request there may rotate the keys that sign messages';

/** Whether every server, proxy and library reads the path the same way. */
const isPlainPath = (path: string) => /^(\/(?!\.{1,2}(\/|$))[\w.~-]+)+$/.test(path);

const eventsPath = z
  .string()
  .refine(path => path === 'auto' || isPlainPath(path), { error: 'must be auto, or a path such as /v2/logs' })
  .refine(path => !rotatesKeys(path), { error: ROTATES_KEYS });

const rotateTokenPath = z
  .string()
  .refine(isPlainPath, { error: 'must be a path such as /svc/user/rotatetoken' })
  // Further segments are also rejected, because a service may ignore them.
  .refine(path => !/\/keys\/rotate(\/|$)/i.test(path), { error: ROTATES_KEYS });

const accountPath = z
  .string()
  .refine(isPlainPath, { error: 'must be a path such as /v2/qstash/users' })
  .refine(path => !rotatesKeys(path), { error: ROTATES_KEYS });

const pathOptions = z.strictObject({
  events: eventsPath
    .default('auto')
    .describe('Path of the event log. `auto`: `/v2/events`, or `/v2/logs` if the first path returns 404 or 405.'),
  flowControlKey: keyPath
    .default(`/v2/flowControl/${KEY}`)
    .describe(`Path of a single flow-control key. Some versions of the service use \`/v2/keys/rotate/${KEY}\`.`),
  rotateToken: rotateTokenPath
    .default('/svc/user/rotatetoken')
    .describe(
      'Path of the token reset, below `management.baseUrl`. Newer versions of the service use `/v2/qstash/rotate-token/ACCOUNT_ID`.',
    ),
  account: accountPath
    .nullable()
    .default(null)
    .describe(
      'Path of the account’s limits and usage, below `management.baseUrl`, such as `/v2/qstash/users`. If null, they are not read.',
    ),
});

const retentionOptions = z.strictObject({
  dlq: Duration.nullable()
    .default(null)
    .describe(
      'How long the service keeps dead letters. Required for `delivery_dlq_retention_seconds`, for alerts about expiry, and for `reason="expired"` in `delivery_dlq_left_total`.',
    ),
  events: Duration.nullable()
    .default(null)
    .describe('How long the service keeps events. `idleFor` in auto-cancel rules must be shorter.'),
});

/** Returns the configuration key of a limit: its label value in camel case. */
export const limitKey = (limit: string) => limit.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

const LIMITS: ReadonlyMap<string, AccountLimit> = new Map(ACCOUNT_LIMITS.map(limit => [limitKey(limit), limit]));

const limitsOptions = z
  .partialRecord(z.enum([...LIMITS.keys()]), z.number().nonnegative())
  .transform(
    (given): AccountLimits =>
      Object.fromEntries([...LIMITS].flatMap(([key, limit]) => (key in given ? [[limit, given[key]]] : []))),
  );

const managementOptions = z.strictObject({
  baseUrl: httpUrl.describe('Base URL of the account management API, without `/svc`.'),
  username: z
    .string()
    .regex(/^[\x21-\x39\x3b-\x7e]+$/, { error: 'must be visible ASCII characters, without spaces and colons' })
    .describe('User name.'),
  password: secret.describe(
    'Password: `{ env: NAME }` or `{ file: PATH }`. If a token reset returns a new password, `rotate-token` writes it to this file.',
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
    name: EntryName.describe('Unique name, used as the label `account`.'),
    baseUrl: httpUrl.describe('Base URL of the service, without `/v2`.'),
    regionalBaseUrl: regionalUrl
      .nullable()
      .default(null)
      .describe(
        'Base URL for cancels and for single flow-control keys. It may contain `{region}`. Default: `baseUrl`.',
      ),
    region: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 -' })
      .nullable()
      .default(null)
      .describe('Value that replaces `{region}` in `regionalBaseUrl`.'),
    token: secret.describe(
      'Bearer token: `{ env: NAME }` or `{ file: PATH }`. The file is read again when it changes.',
    ),
    actionToken: secret
      .nullable()
      .default(null)
      .describe(
        'Token with write permission for cancels, if `token` is read-only. The action token is loaded only if an auto-cancel rule may cancel. Default: `token`.',
      ),
    management: managementOptions
      .nullable()
      .default(null)
      .describe('Login to the account management API, required by `paths.account` and by the command `rotate-token`.'),
    labels: labelsOptions
      .default({})
      .describe('Additional labels of `delivery_account_info`, such as `{ team: payments }`, for joins in PromQL.'),
    plan: z
      .enum(PLAN_NAMES, { error: `must be one of ${PLAN_NAMES.join(', ')}` })
      .nullable()
      .default(null)
      .describe(
        `Public plan of the account: ${PLAN_NAMES.map(name => `\`${name}\``).join(', ')}. \`check-config\` warns if \`limits\`, \`retention\` or the required requests per day do not fit the plan.`,
      ),
    retention: retentionOptions.prefault({}),
    limits: limitsOptions
      .prefault({})
      .describe(
        'Limits of your plan, such as `{ dlqSize: 10000 }`. Limits that the management API or a token reset reports take precedence.',
      ),
    budget: budgetOptions.prefault({}).describe('Request budget of the account, shared by collectors and auto-cancel.'),
    paths: pathOptions.prefault({}).describe('Paths of endpoints, if they differ in your service.'),
  })
  .superRefine(({ regionalBaseUrl, region, management, paths }, context) => {
    if (management && rotatesKeys(`${management.baseUrl.replace(/\/+$/, '')}${paths.rotateToken}`)) {
      context.addIssue({
        code: 'custom',
        path: ['paths', 'rotateToken'],
        message: `${ROTATES_KEYS} (with management.baseUrl)`,
      });
    }
    if (paths.account !== null && !management) {
      context.addIssue({ code: 'custom', path: ['paths', 'account'], message: 'needs management' });
    }
    if (region === null && regionalBaseUrl?.includes(REGION)) {
      context.addIssue({
        code: 'custom',
        path: ['region'],
        message: `is required: regionalBaseUrl contains ${REGION}`,
      });
    }
  });

export type AccountOptions = z.output<typeof accountOptions>;

export const addressesOf = ({ baseUrl, regionalBaseUrl, region }: AccountOptions) => ({
  base: baseUrl,
  regional: regionalBaseUrl?.replace(REGION, () => region ?? '') ?? baseUrl,
});
