import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import { type Secret, toToken } from '../kit/secret.ts';
import type { AccountLimit, AccountRecord } from '../model/account.ts';
import type { AccountUsage } from '../model/service.ts';
import { createPageSizes, createReader, type ListMeter, type Reader, type ReadRound } from './api.ts';
import { type Budget, withBudget } from './budget.ts';
import { isMissingPath, UpstreamError } from './errors.ts';
import { createMissingLists, type MissingLists } from './missing-lists.ts';
import { type Observing, type RequestMeter, withObservation } from './observed.ts';
import { eventsPath } from './paginate.ts';
import { type Addresses, type Call, createSend, isSaneId, type Priority, type SendDeps, withRetry } from './send.ts';
import { type TokenSource, withBearer } from './token.ts';
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

/** The account management API, which has a separate address and login. */
interface Management {
  readonly baseUrl: string;
  readonly username: string;
  readonly password: TokenSource;
  /** Path of the account's record, or of a list with one record per region. */
  readonly path: string;
  readonly region: string | null;
}

const MAX_BYTES = 1024 * 1024;

/** Adds the login of the management API instead of the account's token. */
const withLogin =
  ({ username, password }: Management) =>
  (call: Call): Call =>
  async (request, headers) => {
    const login = Buffer.from(`${username}:${(await password()).reveal()}`).toString('base64');
    return call(request, { ...headers, authorization: `Basic ${login}` });
  };

interface AccountReaderDeps {
  readonly call: Call;
  readonly management: Management;
  /** Identifies the account among the records of all regions. */
  readonly token: TokenSource;
  readonly clock: Pick<Clock, 'now'>;
}

/** Returns the function that reads the account's record and usage. Responses contain tokens, so they are not kept. */
function createAccountReader({ call, management, token, clock }: AccountReaderDeps) {
  const { path, region } = management;
  return async (priority: Priority, signal: AbortSignal): Promise<AccountUsage> => {
    const get = async (path: string, template: string, query = new URLSearchParams()) => {
      const request = { endpoint: 'account', method: 'GET', address: 'base', path, template, query } as const;
      return (await call({ ...request, priority, largest: MAX_BYTES, signal })).body;
    };
    const found = findRecord(await get(path, path), (await token()).reveal(), region);
    if (!found || !isSaneId(found.id)) {
      throw new UpstreamError(
        'invalid_response',
        `GET ${path}: no record is certain to be this account's; set the account's region`,
      );
    }
    const statistics = path.replace(/\/users?(\/[^/]+)?$/, '/stats/');
    if (statistics === path) return found.record;
    try {
      const query = new URLSearchParams({ period: '1h' });
      const usage = usageFrom(await get(statistics + found.id, `${statistics}{id}`, query), clock.now());
      if (!usage) throw new UpstreamError('invalid_response', `GET ${statistics}{id}: no statistics`);
      return { ...found.record, ...usage };
    } catch (error) {
      if (isMissingPath(error)) return found.record;
      throw error;
    }
  };
}

export interface UpstreamClientDeps extends Omit<SendDeps, 'clock' | 'onBytes'>, Observing {
  /** Default: `auto`. */
  readonly eventsPath?: string;
  readonly flowControlKeyPath: string;
  readonly token: TokenSource;
  /** Undefined if the account's record cannot be read. */
  readonly management?: Management | undefined;
  readonly budget: Budget;
  readonly meter: RequestMeter & ListMeter;
  readonly random: () => number;
  /** Default: no list has been read. */
  readonly missingLists?: MissingLists | undefined;
  /** Secrets to redact from the service's error texts, in addition to the request's token. */
  readonly secrets: () => readonly string[];
  /** Called when the service first accepts the token, and when it starts or stops rejecting it. */
  readonly onTokenRejected: (rejected: boolean) => void;
}

/** Builds the call to these addresses. `authorize` adds the credentials. */
function createCall(deps: UpstreamClientDeps, addresses: Addresses, authorize: (call: Call) => Call): Call {
  const { meter, clock, timeout } = deps;
  const send = createSend({ ...deps, addresses, onBytes: (endpoint, bytes) => meter.bytes.inc({ endpoint }, bytes) });
  // Innermost first. Every attempt is counted and uses the budget, but requests with a rejected token are not attempted.
  const layers = [
    withObservation(deps, addresses),
    withBudget(deps.budget),
    authorize,
    withRetry(clock, deps.random, timeout),
  ];
  return layers.reduce((inner, layer) => layer(inner), send);
}

/** The management API is another service: its clock and its rejections do not concern the delivery service. */
function managementCall(deps: UpstreamClientDeps, management: Management): Call {
  const { baseUrl } = management;
  return createCall({ ...deps, serviceClock: undefined }, { base: baseUrl, regional: baseUrl }, withLogin(management));
}

export function createClient(deps: UpstreamClientDeps) {
  const { addresses, clock, management, token } = deps;
  const call = createCall(deps, addresses, withBearer(token, clock, deps.onTokenRejected));
  const sizes = createPageSizes();
  const events = eventsPath(deps.eventsPath ?? 'auto');
  const { missingLists = createMissingLists(), serviceClock } = deps;
  const dataClock = { now: () => serviceClock?.at(clock.now()) ?? clock.now() };
  const account =
    management && createAccountReader({ management, token, clock: dataClock, call: managementCall(deps, management) });
  return {
    /** Creates a reader for one round, or for reads outside rounds. */
    at(priority: Priority, round?: ReadRound): Reader {
      const acceptList = round === undefined ? missingLists.acceptOutside : missingLists.createRound();
      return createReader({ ...deps, clock: dataClock, call, sizes, priority, events, round, acceptList, account });
    },
  };
}
