import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Outcome } from '../../src/upstream/errors.ts';

/** The lists that the agent reads, by the name it gives each in metrics. */
export const LISTS = ['dlq', 'events', 'flow_control'] as const;
export type List = (typeof LISTS)[number];

const PATHS: Readonly<Record<string, List>> = {
  '/v2/dlq': 'dlq',
  '/v2/events': 'events',
  '/v2/logs': 'events',
  '/v2/flowControl': 'flow_control',
};

/** What a service gets when it is started. */
export interface Site {
  /** The only token that it may ever see. */
  readonly token: string;
  /** Where redirects lead: a host that must never be asked for anything. */
  readonly trap: string;
  readonly certificate: { readonly key: string; readonly cert: string };
  /** A number from 0 up to 1, the same ones for the same seed. */
  readonly random: () => number;
  /** Tells of something that the agent must never do. */
  readonly complain: (what: string) => void;
}

/** A service that has been started. */
export interface Running {
  readonly url: string;
  close(): Promise<void>;
}

/** One request as a service here sees it. */
export interface Asked {
  readonly list: List;
  readonly query: URLSearchParams;
}

/** Answers one request. */
export type Answer = (asked: Asked, response: ServerResponse, request: IncomingMessage) => void;

/** How a round ends: `ok`, or the `reason` of its failure. `unending`: not within a test. */
export type Ending = Outcome | 'unending';

/** One way in which a service can be hostile, broken or strange. */
export interface HostileService {
  /** Names its account too. */
  readonly name: string;
  /** How the rounds end that read each list. */
  readonly outcome: Ending | Readonly<Record<List, Ending>>;
  /**
   * Whose requests are counted with that outcome. `each`, the default: those of each list. `any`: of one list at least,
   * as the others are then not sent. `none`: the answers, or the connections, are sound one by one.
   */
  readonly counted?: 'each' | 'any' | 'none';
  /** Values that /metrics shows for its account. */
  readonly shows?: Readonly<Record<string, number>>;
  /** What its account may cost, where it is not asked without limit. */
  readonly budget?: { readonly requestsPerSecond: number; readonly burst: number };
  /** How long the agent may take over one answer, where that is more than eight seconds. */
  readonly timeout?: string;
  /** Speaks TLS, with a certificate of nobody's. */
  readonly tls?: true;
  start(site: Site): Promise<Running>;
}

/** The same for every list. */
export const every = <T>(value: T): Readonly<Record<List, T>> => ({ dlq: value, events: value, flow_control: value });

/** What comes in pages ends so; the list of keys, which does not, is well. */
export const paged = <T>(ending: T) => ({ dlq: ending, events: ending, flow_control: 'ok' }) as const;

/** How the rounds end that read each list. */
export const endingsOf = ({ outcome }: Pick<HostileService, 'outcome'>): Readonly<Record<List, Ending>> =>
  typeof outcome === 'string' ? every(outcome) : outcome;

/** What is asked; what must never be asked, or not in this way, is told of and answered all the same. */
export function toAsked(site: Site, method = '', target = '', authorization = ''): Asked {
  const url = new URL(target, 'http://service.invalid');
  if (method !== 'GET') site.complain(`method ${method}`);
  if (!(url.pathname in PATHS)) site.complain(`path ${url.pathname}`);
  if (target.includes(site.token)) site.complain('a token in an address');
  if (authorization !== `Bearer ${site.token}`) site.complain("a request without this account's own token");
  return { list: PATHS[url.pathname] ?? 'dlq', query: url.searchParams };
}

export function json(response: ServerResponse, body: unknown, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
