import { z } from 'zod';
import { EXPLAIN_PATH, REPORT_PATH } from '../http/peer.ts';
import { version } from '../kit/version.ts';
import { isSaneId } from '../upstream/api.ts';
import { AutoCancelQuery } from './api/auto-cancel.ts';
import { HistoryQuery } from './api/history.ts';
import { DlqLookupQuery, EventLookupQuery, MessageLookupQuery, timeOrAge } from './api/lookup.ts';
import { OverviewQuery } from './api/overview.ts';
import { AccountName } from './api/parts.ts';
import { RequestError } from './lookups.ts';
import { readDocument } from './page/runbooks.ts';
import type { Views } from './served.ts';

export const INVALID_ID = 'the message id must be 1 to 200 of A-Z a-z 0-9 _ -';

/** A request to an endpoint. Times are in milliseconds since the Unix epoch. */
interface ViewRequest<Q> {
  readonly query: Q;
  /** Parameters in the path. */
  readonly params: Readonly<Record<string, string>>;
  readonly now: number;
  /** Aborted when the client has disconnected. */
  readonly client: AbortSignal;
}

/** A GET route that returns a view as JSON. Routes, docs/openapi.json, docs/api.md and docs/operate.md derive from it. */
export interface ApiEndpoint<Q = never> {
  /** As in OpenAPI: parameters in braces. */
  readonly path: string;
  readonly description: string;
  /** Possibly confidential content, for docs/operate.md. */
  readonly exposes?: string;
  /** Schema of the query parameters. Unknown parameters are errors: otherwise, a misspelt one would be ignored silently. */
  readonly query?: z.ZodObject;
  /** Name of the response's schema in the OpenAPI document. */
  readonly response: string;
  readonly isList?: true;
  /** Whether the view is read from the service. Other views are created one at a time, because they may have thousands of rows. */
  readonly isLookup?: true;
  /** Meanings of status codes other than 200. */
  readonly failures: Readonly<Record<number, string>>;
  /** Throws RequestError. */
  view(views: Views, request: ViewRequest<Q>): unknown;
}

const INVALID = 'A parameter is invalid.';

const define = <T extends z.ZodObject = z.ZodObject<Record<never, never>>>(
  endpoint: Omit<ApiEndpoint, 'view' | 'query' | 'failures'> & {
    readonly query?: T;
    readonly failures?: ApiEndpoint['failures'];
    view(views: Views, request: ViewRequest<z.output<T>>): unknown;
  },
) => ({ failures: { 400: INVALID }, ...endpoint }) as ApiEndpoint;

/** Returns the error for an account without a view: it is not configured, or a reload has not opened it yet. */
export const noView = ({ accounts }: Pick<Views, 'accounts'>, name: string): RequestError =>
  accounts.includes(name)
    ? new RequestError(503, 'the account is not open yet', 5000)
    : new RequestError(404, 'no account with that name is configured');

/** Returns the view that `found` returns. Throws RequestError if it returns undefined, or if the account is not configured. */
function ofAccount<T>(views: Views, name: string, found: (name: string) => T | undefined): T {
  const view = views.accounts.includes(name) ? found(name) : undefined;
  if (view === undefined) throw noView(views, name);
  return view;
}

/** Returns the account of a look-up: the given one, or the only configured one. */
function accountOf({ accounts }: Views, given: string | undefined): string {
  const [only, ...more] = accounts;
  const account = given ?? (more.length === 0 ? only : undefined);
  if (account === undefined) throw new RequestError(400, 'account is required, because several are configured');
  if (!accounts.includes(account)) throw noView({ accounts }, account);
  return account;
}

const NOT_CONFIGURED = 'No account with that name is configured.';
const LOOKUP_FAILURES = {
  400: INVALID,
  404: NOT_CONFIGURED,
  429: 'Too many look-ups, or their share of the request budget is used up; retry after `Retry-After`.',
  502: 'The service does not support the request, or its rows contradict a filter.',
  503: 'The service limits the rate or fails, or the account is not open.',
};

const PROBLEMS = 'accounts, their problems and failed rounds';
const MESSAGES = 'ids, labels and URLs of messages, and IP addresses of publishers';
const CALLBACKS = 'DLQ ids, and workflow URLs (without user names and query strings)';

export const API_ENDPOINTS: readonly ApiEndpoint[] = [
  define({
    path: '/api/v1/overview',
    description: 'State of all accounts: problems, firing alerts, and a page of matching accounts.',
    exposes: PROBLEMS,
    query: OverviewQuery,
    response: 'Overview',
    view: (views, { query }) => views.overview(query),
  }),
  define({
    path: REPORT_PATH,
    description:
      'Health of all accounts and of the agent: problems, and data that is not current. `delivery-watch report` prints this response.',
    exposes: PROBLEMS,
    response: 'Report',
    view: views => views.report(),
  }),
  define({
    path: '/api/v1/accounts/{name}',
    description: 'All data of an account.',
    exposes: 'flow-control keys; ids and labels of dead letters, and their URLs without user names and query strings',
    response: 'Account',
    failures: { 400: INVALID, 404: NOT_CONFIGURED },
    view: (views, { params: { name = '' } }) => ofAccount(views, name, views.account),
  }),
  define({
    path: '/api/v1/accounts/{name}/history',
    description: 'Recorded history of metric families of an account.',
    exposes: 'flow-control keys, destination hosts, routes',
    query: HistoryQuery,
    response: 'History',
    failures: { 400: INVALID, 404: NOT_CONFIGURED },
    async view(views, { query, params: { name = '' } }) {
      const history = await ofAccount(views, name, configured => views.history(configured, query));
      if (history === undefined) throw noView(views, name);
      return history;
    },
  }),
  define({
    path: '/api/v1/dlq',
    description: 'The newest dead letters that match the filters, read from the service.',
    exposes: MESSAGES,
    query: DlqLookupQuery,
    response: 'DeadLetters',
    isLookup: true,
    failures: LOOKUP_FAILURES,
    view: (views, { query: { account, ...filters }, client }) =>
      views.lookups.dlq(accountOf(views, account), filters, client),
  }),
  define({
    path: '/api/v1/events',
    description: 'The newest events that match the filters, read from the service.',
    exposes: MESSAGES,
    query: EventLookupQuery,
    response: 'Events',
    isLookup: true,
    failures: LOOKUP_FAILURES,
    view: (views, { query: { account, ...filters }, client }) =>
      views.lookups.events(accountOf(views, account), filters, client),
  }),
  define({
    path: '/api/v1/messages/{id}',
    description:
      'The timeline of a message, read from the service: events, and the dead letter with the state of its failure callback.',
    exposes: MESSAGES,
    query: MessageLookupQuery,
    response: 'Message',
    isLookup: true,
    failures: { ...LOOKUP_FAILURES, 404: 'The account is not configured, or the service lists no such message.' },
    view(views, { query: { account }, params: { id = '' }, client }) {
      if (!isSaneId(id)) throw new RequestError(400, INVALID_ID);
      return views.lookups.message(accountOf(views, account), id, client);
    },
  }),
  define({
    path: '/api/v1/auto-cancel',
    description:
      'Rules, pauses, breakers, tracked failure callbacks and the journal of auto-cancel. Lists are empty while auto-cancel is off.',
    exposes: CALLBACKS,
    query: AutoCancelQuery,
    response: 'AutoCancel',
    failures: { 400: INVALID, 404: NOT_CONFIGURED },
    view: (views, { query: { account } }) =>
      account === undefined ? views.autoCancel(undefined) : ofAccount(views, account, views.autoCancel),
  }),
  define({
    path: '/api/v1/openapi.json',
    description: 'This description of the API (OpenAPI).',
    response: 'application/json',
    view: () => JSON.parse(readDocument('openapi.json')),
  }),
  define({
    path: '/api/v1/status',
    description: 'State of all rounds of every account.',
    exposes: PROBLEMS,
    response: 'Status',
    view: (views, { now }) => ({ version, now: new Date(now).toISOString(), accounts: views.status() }),
  }),
  define({
    path: '/api/v1/alerts',
    description: 'Alerts evaluated by the agent: pending, firing and recently resolved.',
    exposes: "labels and annotations of the agent's own alerts",
    response: 'Alert',
    isList: true,
    view: views => views.alerts(),
  }),
  define({
    path: EXPLAIN_PATH,
    description: 'Why a failure callback is or is not cancelled, for each account that tracks it.',
    exposes: CALLBACKS,
    query: z.object({
      id: z.string().min(1, 'must be the dlqId or messageId of an entry').describe('dlqId or messageId of an entry.'),
      account: AccountName.optional().describe('Only this account.'),
    }),
    response: 'Explanation',
    isList: true,
    failures: { 400: 'The id is missing.', 404: 'No failure callback of that entry is tracked.' },
    async view(views, { query: { id, account } }) {
      if (account !== undefined && !views.accounts.includes(account)) throw noView(views, account);
      const found = await views.explain(id, account);
      if (found.length === 0) throw new RequestError(404, 'no failure callback of that entry is tracked');
      return found;
    },
  }),
  define({
    path: '/api/v1/journal',
    description: 'The newest lines of the auto-cancel journal (at most 10,000), in chronological order.',
    exposes: CALLBACKS,
    query: z.object({
      since: z.string().default('24h').describe('Start: a duration before now, such as 90m, or a time.'),
    }),
    response: 'JournalEntry',
    isList: true,
    view(views, { query, now }) {
      const since = timeOrAge(query.since, now);
      if (since === undefined) throw new RequestError(400, 'since must be one duration such as 24h, or one time');
      return views.journal(since);
    },
  }),
];
