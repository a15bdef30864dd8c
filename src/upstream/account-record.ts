import { z } from 'zod';
import { type Secret, toToken } from '../kit/secret.ts';
import { boundText } from '../kit/text.ts';
import type { AccountLimit, AccountRecord } from '../model/account.ts';

/** The service's value for "no limit". */
const UNLIMITED = 2 ** 31 - 1;

/** Maximum length of the record's texts (characters), because they appear in every scrape. */
const MAX_TEXT_LENGTH = 64;

/** Fields of the account record in the response of a token reset. Only this file contains its field names. */
const FIELDS: Readonly<Record<AccountLimit, string>> = {
  message_size_bytes: 'max_message_size',
  requests_per_day: 'max_requests_per_day',
  requests_per_day_hard: 'max_requests_per_day_hard',
  requests_per_second: 'max_requests_per_second',
  endpoints_per_topic: 'max_endpoints_per_topic',
  dlq_size: 'max_dlq_size',
  retries: 'max_retries',
  topics: 'max_topics',
  schedules: 'max_schedules',
  events_size: 'max_events_size',
  delay_seconds: 'max_delay',
  parallelism: 'max_parallelism',
  global_parallelism: 'max_global_parallelism',
  queues: 'max_queues',
  request_timeout_seconds: 'timeout',
};

const Row = z.looseObject({ token: z.string() });

export interface ResetResponse {
  readonly token: Secret;
  /** Later versions of the record have no password. */
  readonly password: Secret | undefined;
  readonly record: AccountRecord;
}

const limit = (value: unknown) =>
  typeof value === 'number' && value >= 0 && value !== UNLIMITED && Number.isFinite(value) ? value : undefined;

function word(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? boundText(value, MAX_TEXT_LENGTH) : undefined;
}

function stateOf({ state, active }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof active !== 'boolean') return word(state);
  return word(state) ?? (active ? 'active' : 'passive');
}

/** Parses the response of a token reset. Returns undefined if it has no token. */
export function parseResetResponse(bytes: Buffer): ResetResponse | undefined {
  let body: unknown;
  try {
    body = JSON.parse(bytes.toString('utf8').replace(/^\ufeff/, ''));
  } catch {
    // The error's message would quote the secrets.
    return undefined;
  }
  const fields = Row.safeParse(body).data;
  const token = fields && toToken(fields.token);
  if (!token) return undefined;
  const { password } = fields;
  const limits = Object.entries(FIELDS).flatMap(([name, field]) => {
    const value = limit(fields[field]);
    return value === undefined ? [] : [[name, value] as const];
  });
  const retention = limit(fields.max_dlq_retention_time_milis);
  return {
    token,
    password: typeof password === 'string' ? toToken(password) : undefined,
    record: {
      // For prepaid plans, `type` is only `paid`.
      plan: word(fields.reserved_type) ?? word(fields.type),
      state: stateOf(fields),
      limits: Object.fromEntries(limits),
      dlqRetentionSeconds: retention === undefined ? undefined : retention / 1000,
    },
  };
}
