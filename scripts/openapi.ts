import { z } from 'zod';
import { Approval, Reason } from '../src/http/commands.ts';
import { AccountView, AnyAccountView, DeadLetter, ReducedAccountView } from '../src/status/api/account.ts';
import { AgentView, Fault } from '../src/status/api/agent.ts';
import { AutoCancelQuery, AutoCancelView, Candidate, Finding } from '../src/status/api/auto-cancel.ts';
import { HistoryQuery, HistoryView } from '../src/status/api/history.ts';
import { AccountRow, Overview, OverviewQuery } from '../src/status/api/overview.ts';
import { Account, Alert, Change, DataState, Problem, State, Time } from '../src/status/api/parts.ts';
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

/**
 * Describes all routes of the port except pages and metrics: OpenAPI 3.1, derived from the schemas of the responses.
 */

/** Schemas that have a name in the document. */
const COMPONENTS = {
  Account: AnyAccountView,
  AccountRow,
  Agent: AgentView,
  Alert,
  Approval,
  Approved,
  AutoCancel: AutoCancelView,
  Candidate,
  Change,
  CompleteAccount: AccountView,
  DataState,
  DeadLetter,
  Explanation,
  Failure,
  Fault,
  Finding,
  History: HistoryView,
  JournalEntry,
  NotReloaded,
  Overview,
  Problem,
  Reason,
  ReducedAccount: ReducedAccountView,
  Reloaded,
  State,
  Status,
  Stopped,
  Targets,
  Time,
};
type Component = keyof typeof COMPONENTS;

/** Response of a route for one status: a component as JSON, a list of it, or text of a type. */
interface Answer {
  readonly says: string;
  readonly json?: Component;
  readonly list?: Component;
  readonly text?: string;
}

interface Route {
  readonly method: 'get' | 'post';
  readonly path: string;
  readonly says: string;
  /** Query parameters; a parameter `name` in the path is an account name. */
  readonly query?: z.ZodObject;
  readonly body?: Component;
  readonly answers: Readonly<Record<number, Answer>>;
}

const failure = (says: string): Answer => ({ says, json: 'Failure' });
const BAD_QUERY = failure('A parameter can’t be used.');
const NO_ACCOUNT = failure('No account of that name is configured.');

const REFUSED = {
  403: failure('`server.lifecycle` is off, the request comes from another site, or the port does not know who asks.'),
  415: failure('The body is not JSON in UTF-8.'),
};
const BODY = { 400: failure('The body is not as described.'), 413: failure('The body is too large.'), ...REFUSED };
const NOT_DONE = failure('Why it was not done.');

const ROUTES: readonly Route[] = [
  {
    method: 'get',
    path: '/api/v1/overview',
    says: 'How all accounts stand: those that the query matches, what is wrong, and which alerts fire.',
    query: OverviewQuery,
    answers: { 200: { says: 'A page of accounts.', json: 'Overview' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/accounts/{name}',
    says: 'All that is known of an account; of one that another replica holds, what its status row has.',
    answers: { 200: { says: 'The account.', json: 'Account' }, 400: BAD_QUERY, 404: NO_ACCOUNT },
  },
  {
    method: 'get',
    path: '/api/v1/accounts/{name}/history',
    says: 'What was recorded of some metric families of an account.',
    query: HistoryQuery,
    answers: { 200: { says: 'Their series.', json: 'History' }, 400: BAD_QUERY, 404: NO_ACCOUNT },
  },
  {
    method: 'get',
    path: '/api/v1/auto-cancel',
    says: 'Rules, brakes, tracked failure callbacks and the journal of auto-cancel. Empty lists while it is off.',
    query: AutoCancelQuery,
    answers: { 200: { says: 'Auto-cancel.', json: 'AutoCancel' }, 400: BAD_QUERY, 404: NO_ACCOUNT },
  },
  {
    method: 'get',
    path: '/api/v1/agent',
    says: 'The agent itself: its configuration without secrets, its last reload, store and notifiers.',
    answers: { 200: { says: 'The agent.', json: 'Agent' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/openapi.json',
    says: 'This description.',
    answers: { 200: { says: 'OpenAPI 3.1.', text: 'application/json' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/stream',
    says: 'Events of the page: it says when there is something new to ask for.',
    answers: {
      200: { says: 'Server-sent events, until the connection ends.', text: 'text/event-stream' },
      503: { says: '64 streams are open; `Retry-After` says when to ask again.', text: 'text/plain' },
    },
  },
  {
    method: 'get',
    path: '/api/v1/status',
    says: 'How the rounds of every account fare.',
    answers: { 200: { says: 'The rounds.', json: 'Status' } },
  },
  {
    method: 'get',
    path: '/api/v1/alerts',
    says: 'Alerts of the agent itself that are pending, firing, or were resolved lately.',
    answers: { 200: { says: 'The alerts.', list: 'Alert' } },
  },
  {
    method: 'get',
    path: '/api/v1/explain',
    says: 'Why a failure callback is or is not acted upon, by every account that tracks it.',
    query: z.object({
      id: z.string().describe('dlqId or messageId of an entry.'),
      account: Account.optional().describe('Only this account.'),
    }),
    answers: {
      200: { says: 'An explanation by each account.', list: 'Explanation' },
      400: failure('There is no id.'),
      404: failure('No failure callback of that entry is tracked.'),
      503: failure('The replica that holds the account did not answer.'),
    },
  },
  {
    method: 'get',
    path: '/api/v1/journal',
    says: 'The journal of auto-cancel, the oldest line first: at most the newest 10,000.',
    query: z.object({
      since: z.string().default('24h').describe('How long ago, as a duration such as 90m; or a time.'),
    }),
    answers: { 200: { says: 'The lines.', list: 'JournalEntry' }, 400: BAD_QUERY },
  },
  {
    method: 'get',
    path: '/api/v1/sd',
    says: 'Service discovery of Prometheus: a target for each account; where replicas share the store, at the one that holds it.',
    answers: {
      200: { says: 'The targets.', json: 'Targets' },
      400: { says: '`server.externalUrl` is not set and the request has no Host header.', text: 'text/plain' },
    },
  },
  {
    method: 'get',
    path: '/-/healthy',
    says: 'Whether the process is alive. It never asks the service.',
    answers: { 200: { says: 'It is.', text: 'text/plain' } },
  },
  {
    method: 'get',
    path: '/-/ready',
    says: 'Whether configuration, store and port are there. It never waits for data.',
    answers: { 200: { says: 'They are.', text: 'text/plain' } },
  },
  {
    method: 'post',
    path: '/-/reload',
    says: 'Reads the configuration again and goes over to it.',
    answers: {
      200: { says: 'What has changed.', json: 'Reloaded' },
      400: { says: 'Why it can’t be used. The agent goes on with the one before.', json: 'NotReloaded' },
      ...REFUSED,
    },
  },
  {
    method: 'post',
    path: '/api/v1/auto-cancel/approve',
    says: 'Approves an action that waits for an operator.',
    body: 'Approval',
    answers: {
      200: { says: 'What is approved.', json: 'Approved' },
      ...BODY,
      409: NOT_DONE,
      202: failure('No replica holds the account now: the next one to hold it executes the order.'),
    },
  },
  ...(['pause', 'resume'] as const).map(
    (verb): Route => ({
      method: 'post',
      path: `/api/v1/auto-cancel/${verb}`,
      says:
        verb === 'pause'
          ? 'Stops all cancels until resume. Responds when no cancel can be sent any more, within 30 s.'
          : 'Ends a pause.',
      body: 'Reason',
      answers: { 200: { says: 'Of which accounts.', json: 'Stopped' }, ...BODY, 409: NOT_DONE },
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

function parametersOf({ path, query }: Route): Json[] {
  const named = path.includes('{name}')
    ? [{ name: 'name', in: 'path', required: true, description: 'Name of the account.', schema: { type: 'string' } }]
    : [];
  const asked = Object.entries(query?.shape ?? {}).map(([name, schema]) => {
    const { $schema: _, description, ...json } = z.toJSONSchema(schema as z.ZodType);
    const required = !(schema as z.ZodType).safeParse(undefined).success;
    return { name, in: 'query', required, description, schema: json };
  });
  return [...named, ...asked];
}

function contentOf({ json, list, text }: Answer): Json {
  if (text !== undefined) return { [text]: { schema: text === 'application/json' ? {} : { type: 'string' } } };
  const schema = list ? { type: 'array', items: { $ref: refTo(list) } } : { $ref: refTo(json ?? 'Failure') };
  return { 'application/json': { schema } };
}

function operationOf(route: Route): Json {
  const parameters = parametersOf(route);
  const { body, says, answers } = route;
  return {
    summary: says,
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: { required: true, content: contentOf({ says: '', json: body }) } } : {}),
    responses: Object.fromEntries(
      Object.entries(answers).map(([status, answer]) => [
        status,
        { description: answer.says, content: contentOf(answer) },
      ]),
    ),
  };
}

/** Returns the document. `version`: version of the package. */
export function openApi(version: string): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const route of ROUTES) paths[route.path] = { ...paths[route.path], [route.method]: operationOf(route) };
  return {
    openapi: '3.1.0',
    info: {
      title: 'delivery-watch',
      version,
      description:
        'What the pages of the agent show, as JSON. A value that is null is not known: never read, or too old to be shown.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    paths,
    components: { schemas: componentSchemas() },
  };
}

const [BEGIN, END] = ['<!-- routes: generated from scripts/openapi.ts -->\n', '\n<!-- end of routes -->'];

const code = (text: string) => `\`${text}\``;

function parameterCell({ query, body }: Route): string {
  if (body) return `body: ${code(body)}`;
  return Object.entries(query?.shape ?? {})
    .map(([name, { description = '' }]) => `${code(name)} ${description}`.trim())
    .join('<br>');
}

function answersOf({ answers }: Route): string {
  return Object.entries(answers)
    .map(([status, { json, list, text }]) => `${status} ${list ? `list of ${code(list)}` : code(json ?? text ?? '')}`)
    .join('<br>');
}

/** Returns the text of docs/api.md with the current table of routes. Throws if its marks are missing. */
export function withRoutes(text: string): string {
  const rows = ROUTES.map(route => {
    const { method, path, says } = route;
    return `| ${code(`${method.toUpperCase()} ${path}`)} | ${says} | ${parameterCell(route)} | ${answersOf(route)} |`;
  });
  const table = ['| route | what it is | query | answers |', '|---|---|---|---|', ...rows].join('\n');
  const [before, rest] = text.split(BEGIN);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END)) throw new Error('docs/api.md has no marks for its routes');
  return `${before}${BEGIN}${table}${after}`;
}
