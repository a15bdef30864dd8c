import { z } from 'zod';
import { ApprovalBody, ReasonBody } from '../src/http/routes/lifecycle.ts';
import { AccountView, DeadLetterView } from '../src/status/api/account.ts';
import { AutoCancelView, Candidate, RuleFindingView } from '../src/status/api/auto-cancel.ts';
import { HistoryView } from '../src/status/api/history.ts';
import { DlqLookup, EventLookup, MessageLookup } from '../src/status/api/lookup.ts';
import { AccountRow, Overview } from '../src/status/api/overview.ts';
import { AlertView, ChangeView, DataState, Problem, State, Time } from '../src/status/api/parts.ts';
import { Report } from '../src/status/api/report.ts';
import { Status } from '../src/status/api/status.ts';
import { API_ENDPOINTS, type ApiEndpoint } from '../src/status/endpoints.ts';
import {
  Approved,
  Explanation,
  Failure,
  JournalEntry,
  NotReloaded,
  ReloadErrorView,
  Reloaded,
  Stopped,
  Targets,
} from './api-schemas.ts';

/** Creates the OpenAPI 3.1 description of all routes except pages and metrics: of the table of endpoints, and of the other routes below. */

/** Named schemas of the document. */
const COMPONENTS = {
  Account: AccountView,
  AccountRow,
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
/** Possible response of every route that a standby forwards. */
const STANDBY = failure('The account is not open, or this process is a standby and the leader did not respond.');

const REFUSED = {
  403: failure('`server.lifecycle` is false, the request is cross-site, or the client is not authenticated.'),
  415: failure('The body is not JSON in UTF-8.'),
};
const BODY = { 400: failure('The body is invalid.'), 413: failure('The body is too large.'), ...REFUSED };
const NOT_DONE = failure('The command was not executed; the message has the reason.');

const isComponent = (name: string): name is Component => name in COMPONENTS;

/** Returns the route of an endpoint. Throws an Error if its response is neither a component nor a media type. */
function routeOf({ path, description, query, response, isList, failures = {} }: ApiEndpoint): Route {
  if (!isComponent(response) && !response.includes('/')) throw new Error(`${path}: no schema is named ${response}`);
  const found = isComponent(response) ? (isList ? { list: response } : { json: response }) : { text: response };
  return {
    method: 'get',
    path,
    description,
    ...(query ? { query } : {}),
    responses: {
      200: { description: 'The data.', ...found },
      503: STANDBY,
      ...Object.fromEntries(Object.entries(failures).map(([status, text]) => [status, failure(text)])),
    },
  };
}

const ROUTES: readonly Route[] = [
  ...API_ENDPOINTS.map(routeOf),
  {
    method: 'get',
    path: '/api/v1/sd',
    description:
      'Prometheus service discovery: one target per account. If several processes share the store, the targets point to the leader.',
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
          ? 'Stops all cancels until resume. Responds within 30 s, once no more cancels can be sent.'
          : 'Ends a pause.',
      body: 'Reason',
      responses: { 200: { description: 'The affected accounts.', json: 'Stopped' }, ...BODY, 409: NOT_DONE },
    }),
  ),
];

/** Routes of pages, metrics and service discovery. */
const OTHER_EXPOSURES = [
  [
    '`/metrics`, `/probe`',
    'names of accounts, flow-control keys and filters; destination hosts; if configured, routes, workflow URLs without user names and query strings, queues, topics, schedules, labels',
  ],
  ['`/` and the other pages', 'the content of the API routes below'],
  ['`/api/v1/sd`', "accounts, and the leader's address"],
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

const tableOf = (headings: readonly string[], rows: readonly (readonly string[])[]) =>
  [headings, headings.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n');

/** Returns the table of routes for docs/api.md. */
export function routesTable(): string {
  const rows = ROUTES.map(route => {
    const { method, path, description, responses } = route;
    return [code(`${method.toUpperCase()} ${path}`), description, parameterCell(route), responseCell(responses[200])];
  });
  return tableOf(['route', 'description', 'query', 'response'], rows);
}

/** Returns the table of routes with possibly confidential content for docs/operate.md. */
export function exposureTable(): string {
  const exposing = Map.groupBy(API_ENDPOINTS, ({ exposes }) => exposes);
  const rows = [...exposing].flatMap(([exposes, endpoints]) =>
    exposes === undefined ? [] : [[endpoints.map(({ path }) => code(path)).join(', '), exposes]],
  );
  return tableOf(['route', 'exposes'], [...OTHER_EXPOSURES, ...rows]);
}
