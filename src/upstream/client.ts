import type { Clock } from '../kit/clock.ts';
import type { AccountUsage } from '../model/service.ts';
import { findRecord, usageFrom } from './account-record.ts';
import { createPageSizes, createReader, type ListMeter, type Reader, type ReadRound } from './api.ts';
import { type Budget, withBudget } from './budget.ts';
import { type Call, isSaneId, type Priority, withRetry } from './call.ts';
import { isMissingPath, UpstreamError } from './errors.ts';
import { createMissingLists, type MissingLists } from './missing-lists.ts';
import { type Observing, type RequestMeter, withObservation } from './observed.ts';
import { eventsPath } from './paginate.ts';
import { type Addresses, createSend, type SendDeps } from './send.ts';
import { type TokenSource, withBearer } from './token.ts';

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
        `GET ${path}: no record is certain to be this account's; set its region`,
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
  // Innermost first. Every attempt is counted and uses the budget, but a request with a token known to be rejected is not attempted.
  const layers = [
    withObservation(deps, addresses),
    withBudget(deps.budget),
    authorize,
    withRetry(clock, deps.random, timeout),
  ];
  return layers.reduce((inner, layer) => layer(inner), send);
}

/** The API is another service, so its clock and its rejections say nothing about this one. */
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
