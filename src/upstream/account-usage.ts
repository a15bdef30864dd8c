import type { Clock } from '../kit/clock.ts';
import type { AccountUsage } from '../model/service.ts';
import { findRecord, usageFrom } from './account-record.ts';
import { type Call, isSaneId, type Priority } from './call.ts';
import { isMissingPath, UpstreamError } from './errors.ts';
import type { TokenSource } from './token.ts';

/** The account management API, which has a separate address and login. */
export interface Management {
  readonly baseUrl: string;
  readonly username: string;
  readonly password: TokenSource;
  /** Path of the account's record, or of a list with one record per region. */
  readonly path: string;
  readonly region: string | null;
}

const MAX_BYTES = 1024 * 1024;

/** Adds the login of the management API instead of the account's token. */
export const withLogin =
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
export function createAccountReader({ call, management, token, clock }: AccountReaderDeps) {
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
