import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestOutcome } from '../../src/upstream/errors.ts';

/** Lists that the agent reads, by their names in metrics. */
export const LISTS = ['dlq', 'events', 'flow_control'] as const;
export type List = (typeof LISTS)[number];

const PATHS: Readonly<Record<string, List>> = {
  '/v2/dlq': 'dlq',
  '/v2/events': 'events',
  '/v2/logs': 'events',
  '/v2/flowControl': 'flow_control',
  // Optional data gets the same responses. It must not affect the other lists.
  '/v2/schedules': 'flow_control',
  '/v2/queues': 'flow_control',
  '/v2/globalParallelism': 'flow_control',
  '/v2/workflows/logs': 'dlq',
};

/** Environment of one hostile service. */
export interface Site {
  /** The only token that the service may receive. */
  readonly token: string;
  /** Target of redirects. It must never receive a connection. */
  readonly trap: string;
  readonly certificate: { readonly key: string; readonly cert: string };
  /** Returns a number in [0, 1); the sequence depends only on the seed. */
  readonly random: () => number;
  /** Records a forbidden action of the agent. */
  readonly complain: (what: string) => void;
}

export interface Running {
  readonly url: string;
  close(): Promise<void>;
}

/** A parsed request. */
export interface ListRequest {
  readonly list: List;
  readonly path: string;
  readonly query: URLSearchParams;
}

/** Responds to one request. */
export type Answer = (listRequest: ListRequest, response: ServerResponse, request: IncomingMessage) => void;

/** Result of a round: `ok` or the `reason` of its failure. `unending` rounds do not end during a test. */
export type Ending = RequestOutcome | 'unending';

/** One kind of hostile, broken or unusual service. */
export interface HostileService {
  /** Also the name of the account. */
  readonly name: string;
  /** Expected result of each list's rounds. */
  readonly outcome: Ending | Readonly<Record<List, Ending>>;
  /**
   * Lists for which requests must be counted with the list's outcome. `each` (default): every list. `any`: at least one list,
   * because its outcome prevents requests for the others. `none`: no list, because individual requests may count as successful.
   */
  readonly counted?: 'each' | 'any' | 'none';
  /** Values that /metrics must contain for the account. */
  readonly shows?: Readonly<Record<string, number>>;
  /** Request budget of the account; unlimited by default. */
  readonly budget?: { readonly requestsPerSecond: number; readonly burst: number };
  /** Response timeout; eight seconds by default. */
  readonly timeout?: string;
  /** Serves TLS with an untrusted certificate. */
  readonly tls?: true;
  start(site: Site): Promise<Running>;
}

/** Returns the same value for every list. */
export const every = <T>(value: T): Readonly<Record<List, T>> => ({ dlq: value, events: value, flow_control: value });

/** Returns `ending` for the paged lists, and `ok` for the list of flow-control keys, which has no pages. */
export const paged = <T>(ending: T) => ({ dlq: ending, events: ending, flow_control: 'ok' }) as const;

/** Returns the expected result of each list's rounds. */
export const endingsOf = ({ outcome }: Pick<HostileService, 'outcome'>): Readonly<Record<List, Ending>> =>
  typeof outcome === 'string' ? every(outcome) : outcome;

/** Parses a request and records a complaint about anything forbidden in it. */
export function parseRequest(site: Site, method = '', target = '', authorization = ''): ListRequest {
  const url = new URL(target, 'http://service.invalid');
  if (method !== 'GET') site.complain(`method ${method}`);
  if (!(url.pathname in PATHS)) site.complain(`path ${url.pathname}`);
  if (target.includes(site.token)) site.complain('a token in an address');
  if (authorization !== `Bearer ${site.token}`) site.complain("a request without this account's own token");
  return { list: PATHS[url.pathname] ?? 'dlq', path: url.pathname, query: url.searchParams };
}

export function json(response: ServerResponse, body: unknown, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
