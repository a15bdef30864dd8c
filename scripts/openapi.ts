import { z } from 'zod';
import { ApprovalBody, ReasonBody } from '../src/http/routes/lifecycle.ts';
import { AccountView, DeadLetterView } from '../src/status/api/account.ts';
import { AgentView, ReloadErrorView } from '../src/status/api/agent.ts';
import { AutoCancelQuery, AutoCancelView, Candidate, RuleFindingView } from '../src/status/api/auto-cancel.ts';
import { HistoryQuery, HistoryView } from '../src/status/api/history.ts';
import {
  DlqLookup,
  DlqLookupQuery,
  EventLookup,
  EventLookupQuery,
  MessageLookup,
  MessageLookupQuery,
} from '../src/status/api/lookup.ts';
import { AccountRow, Overview, OverviewQuery } from '../src/status/api/overview.ts';
import { AccountName, AlertView, ChangeView, DataState, Problem, State, Time } from '../src/status/api/parts.ts';
import { Report } from '../src/status/api/report.ts';
import { Status } from '../src/status/api/status.ts';
import {
  Approved,
  Explanation,
  Failure,
  JournalEntry,
  NotReloaded,
  Reloaded,
  Stopped,
  Targets,
} from './api-schemas.ts';

/** Creates the OpenAPI 3.1 description of all routes except pages and metrics from the schemas of their responses. */

/** Named schemas of the document. */
const COMPONENTS = {
  Account: AccountView,
  AccountRow,
  Agent: AgentView,
  Alert: AlertView,
  Approval: ApprovalBody,
  Approved,
  AutoCancel: AutoCancelView,
  Candidate,
  Change: ChangeView,
  DataState,
  DeadLetter: DeadLetterView,
  DeadLetters: DlqLookup,
  Events: EventLookup,
  Explanation,
  Failure,
  Fault: ReloadErrorView,
  Finding: RuleFindingView,
  History: HistoryView,
  JournalEntry,
  Message: MessageLookup,
  NotReloaded,
  Overview,
  Problem,
  Reason: ReasonBody,
  Report,
  Reloaded,
  State,
  Status,
  Stopped,
  Targets,
  Time,
};
type Component = keyof typeof COMPONENTS;

/** Response of a route for one status: a component as JSON, a list of a component, or text with this media type. */
interface RouteResponse {
  readonly description: string;
  readonly json?: Component;
  readonly list?: Component;
  readonly text?: string;
}

interface Route {
  readonly method: 'get' | 'post';
  readonly path: string;
  readonly description: string;
  /** Schema of the query parameters. */
  readonly query?: z.ZodObject;
  readonly body?: Component;
  readonly responses: { readonly 200: RouteResponse; readonly [status: number]: RouteResponse };
}

const failure = (description: string): RouteResponse => ({ description, json: 'Failure' });
const BAD_QUERY = failure('A parameter is invalid.');
const NO_ACCOUNT = failure('No account with that name is configured.');

/** Every route that a standby forwards may have this response. */
const STANDBY = failure('This process is a standby, and the leader did not respond.');

const LOOKUP_FAILED = {
  400: BAD_QUERY,
  429: failure('Too many look-ups, or their share of the request budget is used up; retry after `Retry-After`.'),
  502: failure('The service does not support the request, or its rows contradict a filter.'),
  503: failure('The service limits the rate or fails, or the account is not open.'),
};

const REFUSED = {
  403: failure('`server.lifecycle` is false, the request is cross-site, or the client is not authenticated.'),
  415: failure('The body is not JSON in UTF-8.'),
};
const BODY = { 400: failure('The body is invalid.'), 413: failure('The body is too large.'), ...REFUSED };
const NOT_DONE = failure('The command was not executed; the message has the reason.');

const ROUTES: readonly Route[] = [
  {
    method: 'get',
    path: '/api/v1/overview',
    description: 'State of all accounts: problems, firing alerts, and a page of matching accounts.',
    query: OverviewQuery,
    responses: { 200: { description: 'A page of accounts.', json: 'Overview' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/report',
    description:
      'Health of all accounts and of the agent: problems, and data that is not current. `delivery-watch report` formats it.',
    responses: { 200: { description: 'The report.', json: 'Report' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/accounts/{name}',
    description: 'All data of an account.',
    responses: { 200: { description: 'The account.', json: 'Account' }, 400: BAD_QUERY, 404: NO_ACCOUNT },
  },
  {
    method: 'get',
    path: '/api/v1/accounts/{name}/history',
    description: 'Recorded history of metric families of an account.',
    query: HistoryQuery,
    responses: { 200: { description: 'The series.', json: 'History' }, 400: BAD_QUERY, 404: NO_ACCOUNT },
  },
  {
    method: 'get',
    path: '/api/v1/dlq',
    description: 'The newest dead letters that match the filters, read from the service.',
    query: DlqLookupQuery,
    responses: { 200: { description: 'The rows.', json: 'DeadLetters' }, 404: NO_ACCOUNT, ...LOOKUP_FAILED },
  },
  {
    method: 'get',
    path: '/api/v1/events',
    description: 'The newest events that match the filters, read from the service.',
    query: EventLookupQuery,
    responses: { 200: { description: 'The rows.', json: 'Events' }, 404: NO_ACCOUNT, ...LOOKUP_FAILED },
  },
  {
    method: 'get',
    path: '/api/v1/messages/{id}',
    description: 'The timeline of a message, read from the service: events, dead letter and failure callback.',
    query: MessageLookupQuery,
    responses: {
      200: { description: 'The message.', json: 'Message' },
      404: failure('The account is not configured, or the service lists no such message.'),
      ...LOOKUP_FAILED,
    },
  },
  {
    method: 'get',
    path: '/api/v1/auto-cancel',
    description:
      'Rules, pauses, breakers, tracked failure callbacks and the journal of auto-cancel. Lists are empty while it is off.',
    query: AutoCancelQuery,
    responses: { 200: { description: 'Auto-cancel.', json: 'AutoCancel' }, 400: BAD_QUERY, 404: NO_ACCOUNT },
  },
  {
    method: 'get',
    path: '/api/v1/agent',
    description: 'The agent itself: its configuration without secrets, its last reload, store and notifiers.',
    responses: { 200: { description: 'The agent.', json: 'Agent' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/openapi.json',
    description: 'This description.',
    responses: { 200: { description: 'OpenAPI 3.1.', text: 'application/json' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/stream',
    description: 'Server-sent events that announce new data.',
    responses: {
      200: { description: 'Events until the connection is closed.', text: 'text/event-stream' },
      503: { description: '64 streams are open; retry after `Retry-After`.', text: 'text/plain' },
    },
  },
  {
    method: 'get',
    path: '/api/v1/status',
    description: 'State of all rounds of every account.',
    responses: { 200: { description: 'The rounds.', json: 'Status' } },
  },
  {
    method: 'get',
    path: '/api/v1/alerts',
    description: 'Alerts evaluated by the agent: pending, firing and recently resolved.',
    responses: { 200: { description: 'The alerts.', list: 'Alert' } },
  },
  {
    method: 'get',
    path: '/api/v1/explain',
    description: 'Why a failure callback is or is not cancelled, for each account that tracks it.',
    query: z.object({
      id: z.string().describe('dlqId or messageId of an entry.'),
      account: AccountName.optional().describe('Only this account.'),
    }),
    responses: {
      200: { description: 'One explanation per account.', list: 'Explanation' },
      400: failure('The id is missing.'),
      404: failure('No failure callback of that entry is tracked.'),
      503: STANDBY,
    },
  },
  {
    method: 'get',
    path: '/api/v1/journal',
    description: 'The newest lines of the auto-cancel journal, at most 10,000, oldest first.',
    query: z.object({
      since: z.string().default('24h').describe('Start: a duration before now, such as 90m, or a time.'),
    }),
    responses: { 200: { description: 'The lines.', list: 'JournalEntry' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/sd',
    description:
      'Prometheus service discovery: one target per account, at the leader if several processes share the store.',
    responses: {
      200: { description: 'The targets.', json: 'Targets' },
      400: { description: '`server.externalUrl` is not set and the request has no Host header.', text: 'text/plain' },
      503: { description: 'No process leads now.', text: 'text/plain' },
    },
  },
  {
    method: 'get',
    path: '/-/healthy',
    description: 'Liveness of the process, independent of the service.',
    responses: { 200: { description: 'The process is alive.', text: 'text/plain' } },
  },
  {
    method: 'get',
    path: '/-/ready',
    description: 'Readiness: configuration, store and port are available. Does not wait for data.',
    responses: { 200: { description: 'The agent is ready.', text: 'text/plain' } },
  },
  {
    method: 'post',
    path: '/-/reload',
    description: 'Reloads the configuration.',
    responses: {
      200: { description: 'The changes.', json: 'Reloaded' },
      400: { description: 'The errors. The previous configuration stays active.', json: 'NotReloaded' },
      ...REFUSED,
    },
  },
  {
    method: 'post',
    path: '/api/v1/auto-cancel/approve',
    description: 'Approves an action that is waiting for an operator.',
    body: 'Approval',
    responses: {
      200: { description: 'The approved action.', json: 'Approved' },
      ...BODY,
      409: NOT_DONE,
      202: failure('The account is not open now. The leader will execute the order when it is.'),
    },
  },
  ...(['pause', 'resume'] as const).map(
    (verb): Route => ({
      method: 'post',
      path: `/api/v1/auto-cancel/${verb}`,
      description:
        verb === 'pause'
          ? 'Stops all cancels until resume. Responds once no more cancels can be sent, within 30 s.'
          : 'Ends a pause.',
      body: 'Reason',
      responses: { 200: { description: 'The affected accounts.', json: 'Stopped' }, ...BODY, 409: NOT_DONE },
    }),
  ),
];

type Json = Readonly<Record<string, unknown>>;

const refTo = (name: string) => `#/components/schemas/${name}`;

function componentSchemas(): Readonly<Record<string, Json>> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(COMPONENTS)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { uri: refTo });
  return Object.fromEntries(
    Object.entries(schemas).map(([name, { $schema: _, $id: __, ...schema }]) => [name, schema as Json]),
  );
}

const PATH_PARAMETERS = { name: 'Name of the account.', id: 'Id of the message.' };

function parametersOf({ path, query }: Route): Json[] {
  const named = Object.entries(PATH_PARAMETERS).flatMap(([name, description]) =>
    path.includes(`{${name}}`) ? [{ name, in: 'path', required: true, description, schema: { type: 'string' } }] : [],
  );
  const queryParameters = Object.entries(query?.shape ?? {}).map(([name, schema]) => {
    const { $schema: _, description, ...json } = z.toJSONSchema(schema as z.ZodType);
    const required = !(schema as z.ZodType).safeParse(undefined).success;
    return { name, in: 'query', required, description, schema: json };
  });
  return [...named, ...queryParameters];
}

function contentOf({ json, list, text }: RouteResponse): Json {
  if (text !== undefined) return { [text]: { schema: text === 'application/json' ? {} : { type: 'string' } } };
  const schema = list ? { type: 'array', items: { $ref: refTo(list) } } : { $ref: refTo(json ?? 'Failure') };
  return { 'application/json': { schema } };
}

function operationOf(route: Route): Json {
  const parameters = parametersOf(route);
  const { body, description, responses } = route;
  return {
    summary: description,
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: { required: true, content: contentOf({ description: '', json: body }) } } : {}),
    responses: Object.fromEntries(
      Object.entries(responses).map(([status, response]) => [
        status,
        { description: response.description, content: contentOf(response) },
      ]),
    ),
  };
}

/** Returns the OpenAPI document. `version`: version of the package. */
export function openApi(version: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of ROUTES) paths[route.path] = { ...paths[route.path], [route.method]: operationOf(route) };
  return {
    openapi: '3.1.0',
    info: {
      title: 'delivery-watch',
      version,
      description: 'The data of the agent’s pages as JSON. A null value is unknown: never read, or too old.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths,
    components: { schemas: componentSchemas() },
  };
}

const [START, END] = ['<!-- routes: generated from scripts/openapi.ts -->\n', '\n<!-- end of routes -->'];

const code = (text: string) => `\`${text}\``;

function parameterCell({ query, body }: Route): string {
  if (body) return `body: ${code(body)}`;
  return Object.keys(query?.shape ?? {})
    .map(code)
    .join(', ');
}

function responseCell({ json, list, text }: RouteResponse): string {
  return list ? `list of ${code(list)}` : code(json ?? text ?? '');
}

/** Returns the text of docs/api.md with the current table of routes. Throws an Error if its markers are missing. */
export function withRoutes(text: string): string {
  const rows = ROUTES.map(route => {
    const { method, path, description, responses } = route;
    const cells = [
      code(`${method.toUpperCase()} ${path}`),
      description,
      parameterCell(route),
      responseCell(responses[200]),
    ];
    return `| ${cells.join(' | ')} |`;
  });
  const table = ['| route | description | query | response |', '|---|---|---|---|', ...rows].join('\n');
  const [before, rest] = text.split(START);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END)) throw new Error('docs/api.md has no markers for its routes');
  return `${before}${START}${table}${after}`;
}
