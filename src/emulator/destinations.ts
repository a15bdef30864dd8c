import type { Fields } from './message.ts';

/** A destination and its behaviour. Times in milliseconds, shares from 0 to 1. */
export interface Destination {
  readonly fields: Fields;
  readonly everyMs: number;
  /** Cron expression that replaces `everyMs` for a schedule: five fields, optionally after `CRON_TZ=ZONE `. */
  readonly cron?: string;
  readonly burst?: readonly [least: number, most: number];
  readonly takesMs: number;
  /** Share of attempts that fail temporarily. */
  readonly flaky: number;
  /** Share of messages for which all attempts fail. */
  readonly doomed: number;
  /** Statuses of failed attempts: 0 without a response, 489 for non-retryable failures. */
  readonly statuses: readonly number[];
  readonly neglected?: boolean;
}

const HEADER = { 'Content-Type': ['application/json'], 'User-Agent': ['emulated-publisher/1.0'] } as const;
const COMMON = { method: 'POST', header: HEADER, maxRetries: 3, topicId: '' } as const;
const labelled = (label: string, ...others: readonly string[]) => ({ labels: [label, ...others], label });
const ORDERS = { ...COMMON, topicName: 'orders', topicId: 'top_4Qk9orders' } as const;

const NEVER_FAILS = { takesMs: 4000, flaky: 0, doomed: 0, statuses: [500] } as const;

/**
 * Destinations that receive about 6,000 messages an hour in total. Some flow-control keys are deliberately unusual, because
 * clients put them in labels and URLs.
 */
export const destinations: readonly Destination[] = [
  {
    fields: {
      ...COMMON,
      url: 'https://mail.example.com/v1/send',
      queueName: 'emails',
      ...labelled('newsletter', 'bulk'),
      failureCallback: 'https://app.example.com/hooks/mail-failed',
      flowControlKey: 'mail/send',
      parallelism: 2,
    },
    everyMs: 200_000,
    burst: [20, 150],
    takesMs: 3000,
    flaky: 0.02,
    doomed: 0.01,
    statuses: [429, 500, 502],
  },
  {
    fields: { ...ORDERS, url: 'https://warehouse.example.net/hooks/orders', endpointName: 'warehouse' },
    everyMs: 3000,
    takesMs: 150,
    flaky: 0.01,
    doomed: 0.004,
    statuses: [500, 503, 504],
  },
  {
    fields: {
      ...ORDERS,
      url: 'https://crm.example.org/in?source=orders&tier=gold',
      endpointName: 'crm',
      flowControlKey: 'crm "gold" \\ tier',
      parallelism: 1,
      maxRetries: 2,
    },
    everyMs: 3000,
    takesMs: 1900,
    flaky: 0.03,
    doomed: 0.006,
    statuses: [400, 409, 503],
  },
  {
    fields: { ...COMMON, url: 'https://reports.example.com/run', scheduleId: 'scd_7minutely', method: 'GET' },
    everyMs: 60_000,
    cron: '* * * * *',
    takesMs: 8000,
    flaky: 0.05,
    doomed: 0.02,
    statuses: [504, 0],
  },
  {
    fields: {
      ...COMMON,
      url: 'https://app.example.com/api/onboarding',
      ...labelled('onboarding'),
      flowControlKey: 'tenant/acme, inc. {eu="1"}',
      parallelism: 2,
      callback: 'https://app.example.com/hooks/done',
    },
    everyMs: 120_000,
    burst: [5, 40],
    takesMs: 6000,
    flaky: 0.03,
    doomed: 0.008,
    statuses: [500, 489],
  },
  {
    fields: {
      ...COMMON,
      url: 'https://media.example.com/thumbnails',
      queueName: 'media',
      ...labelled('media'),
      flowControlKey: 'снимки 🖼',
      rate: 2,
      period: 5,
      maxRetries: 1,
    },
    everyMs: 4000,
    takesMs: 700,
    flaky: 0.02,
    doomed: 0.008,
    statuses: [413, 422, 500],
  },
  {
    fields: { ...COMMON, url: 'http://legacy.example.net:8080/webhook.php', queueName: 'legacy', method: 'PUT' },
    everyMs: 40_000,
    takesMs: 900,
    flaky: 0.1,
    doomed: 0.02,
    statuses: [404, 410, 0],
    neglected: true,
  },
  {
    fields: {
      ...COMMON,
      url: 'https://llm.example.com/v1/chat/completions',
      api: 'llm',
      ...labelled('assistant'),
      flowControlKey: 'llm',
      parallelism: 2,
      rate: 30,
      period: 60,
      maxRetries: 5,
    },
    everyMs: 12_000,
    takesMs: 9000,
    flaky: 0.06,
    doomed: 0.01,
    statuses: [429, 529],
  },
  {
    fields: {
      ...COMMON,
      url: 'https://app.example.com/api/month-end',
      ...labelled('billing', 'onboarding'),
      flowControlKey: 'billing: 100% / tenant?',
      parallelism: 1,
    },
    everyMs: 25 * 60_000,
    burst: [10, 30],
    takesMs: 5000,
    flaky: 0.02,
    doomed: 0.03,
    statuses: [500, 503],
  },
  {
    fields: { ...COMMON, url: 'https://app.example.com/api/digest', scheduleId: 'scd_3digest', ...labelled('digest') },
    everyMs: 24 * 3_600_000,
    cron: 'CRON_TZ=America/New_York 0 8 * * 1-5',
    ...NEVER_FAILS,
  },
  {
    fields: {
      ...COMMON,
      url: 'https://app.example.com/api/close-month',
      scheduleId: 'scd_9monthend',
      ...labelled('billing', 'month-end'),
    },
    everyMs: 30 * 24 * 3_600_000,
    cron: 'CRON_TZ=Europe/Berlin 0 6 1 * *',
    ...NEVER_FAILS,
  },
];

/** Parallelism by queue, so high that messages rarely wait unless the queue is paused. */
export const QUEUE_PARALLELISM: ReadonlyMap<string | undefined, number> = new Map([
  ['emails', 200],
  ['media', 100],
  ['legacy', 5],
]);

/** IP addresses of publishers, from ranges reserved for documentation. */
export const CALLERS = ['192.0.2.10', '192.0.2.11', '198.51.100.7', '2001:db8::25'] as const;

/** A failing workflow and the behaviour of its failure callback. */
export interface Workflow {
  readonly fields: Fields;
  /** Statuses of failed steps and callbacks; 0 without a response. */
  readonly statuses: readonly number[];
  readonly callback?: { readonly url: string; readonly maxRetries: number };
  readonly callbackTakesMs: number;
  readonly callbackFails: number;
}

const STEP = {
  method: 'POST',
  header: { 'Content-Type': ['application/json'], 'Upstash-Workflow-Init': ['false'] },
  maxRetries: 3,
  topicId: '',
} as const;

/** Callbacks are retried for half an hour (3 retries), 6.7 hours (4) or 30.7 hours (5). */
export const workflows: readonly Workflow[] = [
  {
    fields: { ...STEP, url: 'https://app.example.com/api/workflows/signup', ...labelled('signup') },
    statuses: [500, 502],
    callback: { url: 'https://app.example.com/api/workflows/signup', maxRetries: 3 },
    callbackTakesMs: 1500,
    callbackFails: 0.25,
  },
  {
    fields: {
      ...STEP,
      url: 'https://app.example.com/api/workflows/invoice',
      flowControlKey: 'billing: 100% / tenant?',
    },
    statuses: [500, 503, 0],
    callback: { url: 'https://billing.example.net/failed-run', maxRetries: 4 },
    callbackTakesMs: 9000,
    callbackFails: 0.6,
  },
  {
    fields: { ...STEP, url: 'https://reports.example.com/workflows/nightly' },
    statuses: [504, 0],
    callback: { url: 'https://reports.example.com/workflows/nightly', maxRetries: 5 },
    callbackTakesMs: 40_000,
    callbackFails: 0.7,
  },
  {
    fields: { ...STEP, url: 'https://sync.example.org/workflows/contacts', ...labelled('sync', 'crm') },
    statuses: [429, 500],
    callbackTakesMs: 1,
    callbackFails: 0,
  },
];
