import { z } from 'zod';
import { type Secret, toToken } from '../kit/secret.ts';
import type { AccountLimit, AccountRecord } from '../model/account.ts';
import type { AccountUsage } from '../model/service.ts';
import { boundedText, isObject, type RawFields, UNLIMITED } from './wire.ts';

/** Maximum length of the record's texts (characters). */
const MAX_TEXT_LENGTH = 64;

/** Fields of the account record. Only this file contains its field names. */
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

const word = (value: unknown) => boundedText(value, MAX_TEXT_LENGTH);

function stateOf({ state, active }: RawFields): string | undefined {
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
  return {
    token,
    password: typeof password === 'string' ? toToken(password) : undefined,
    record: recordFrom(fields),
  };
}

/** Copies the named numbers and words of a record, which also contains tokens. */
function recordFrom(fields: RawFields): AccountRecord {
  const limits = Object.entries(FIELDS).flatMap(([name, field]) => {
    const value = limit(fields[field]);
    return value === undefined ? [] : [[name, value] as const];
  });
  const retention = limit(fields.max_dlq_retention_time_milis);
  return {
    // For prepaid plans, `type` is only `paid`.
    plan: word(fields.reserved_type) ?? word(fields.type),
    state: stateOf(fields),
    limits: Object.fromEntries(limits),
    dlqRetentionSeconds: retention === undefined ? undefined : retention / 1000,
  };
}

/**
 * Finds an account among the records of all regions, which are a list or a single record. Returns undefined if none or
 * several may be the account with this token or region.
 */
export function findRecord(
  body: unknown,
  token: string,
  region: string | null,
): { readonly id: string; readonly record: AccountRecord } | undefined {
  const all = [body]
    .flat()
    .filter(isObject)
    .filter(({ id }) => word(id) !== undefined);
  const byToken = all.filter(({ token: own, read_only_token: readOnly }) => own === token || readOnly === token);
  const byRegion = all.filter(each => region === null || (each.region ?? region) === region);
  const [found, ...others] = byToken.length > 0 ? byToken : byRegion;
  return found && others.length === 0 ? { id: String(found.id), record: recordFrom(found) } : undefined;
}

/** Matches a time of the statistics: `2025-10-01 11:33:05.585757103 +0000 UTC`. */
const POINT = /^(\d{4}-\d\d-\d\d) [\d:.]+ \+0000 UTC$/;

/** Returns the usage in an account's statistics at `now` (ms); undefined for other content. */
export function usageFrom(body: unknown, now: number): Pick<AccountUsage, 'requestsToday' | 'dlqMessages'> | undefined {
  if (!isObject(body) || !('daily_requests' in body || 'dlq_message_count' in body)) return undefined;
  const days: readonly unknown[] = Array.isArray(body.daily_requests) ? body.daily_requests : [];
  const today = new Date(now).toISOString().slice(0, 10);
  const isToday = (day: unknown) => isObject(day) && POINT.exec(word(day.x) ?? '')?.[1] === today;
  const [found, ...others] = days.filter(isToday) as RawFields[];
  return {
    requestsToday: others.length === 0 ? limit(found?.y) : undefined,
    dlqMessages: limit(body.dlq_message_count),
  };
}
