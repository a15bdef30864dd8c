import { type NextFunction, type Request, type Response, Router } from 'express';
import { z } from 'zod';
import { createSerially } from '../../kit/serially.ts';
import { AutoCancelQuery } from '../api/auto-cancel.ts';
import { HistoryQuery } from '../api/history.ts';
import { OverviewQuery } from '../api/overview.ts';
import { readDocument } from '../page/runbooks.ts';
import type { Served } from '../served.ts';
import { onlyAllow, READ } from './methods.ts';

/** What a query says; or one sentence on why it can't be used, with each parameter and what is allowed for it. */
type ReadQuery<T> = { readonly query: T; readonly error?: undefined } | { readonly error: string };

function wordsOf(
  issue: z.core.$ZodIssue,
  given: Readonly<Record<string, unknown>>,
  allowed: readonly string[],
): string {
  if (issue.code === 'unrecognized_keys') {
    const known = allowed.length > 0 ? `allowed are ${allowed.join(', ')}` : 'none is allowed';
    return `${issue.keys.length > 1 ? 'unknown parameters' : 'unknown parameter'} ${issue.keys.join(', ')}: ${known}`;
  }
  const [name] = issue.path;
  // What may be given more than once says so itself.
  const isTwice = Array.isArray(given[String(name)]) && !issue.message.includes('given');
  return `${String(name)} ${isTwice ? 'must be given once' : issue.message}`;
}

/** Unknown parameters are errors: a misspelt one would else be taken for its default. */
function readQuery<T extends z.ZodObject>(schema: T, given: Readonly<Record<string, unknown>>): ReadQuery<z.output<T>> {
  const { data, error } = schema.strict().safeParse(given);
  if (!error) return { query: data as z.output<T> };
  const words = error.issues.map(issue => wordsOf(issue, given, Object.keys(schema.shape)));
  return { error: [...new Set(words)].join('; ') };
}

const PATHS = [
  '/api/v1/overview',
  '/api/v1/accounts/:name',
  '/api/v1/accounts/:name/history',
  '/api/v1/auto-cancel',
  '/api/v1/agent',
  '/api/v1/openapi.json',
];

const NO_QUERY = z.object({});

const refuse = (response: Response, status: number, error: string) => void response.status(status).json({ error });
const notFound = (response: Response) => refuse(response, 404, 'no account of that name is configured');

/** A path that is no UTF-8, percent-encoded, names nothing. */
function refusePath(error: unknown, _request: Request, response: Response, next: NextFunction): void {
  if (error instanceof URIError) refuse(response, 400, 'the path must be UTF-8, percent-encoded');
  else next(error);
}

/** GET /api/v1/overview, /accounts/NAME, /accounts/NAME/history, /auto-cancel, /agent and /openapi.json: what the pages show, as JSON. */
export function apiRoutes(served: Served): Router {
  // A response may hold thousands of rows: concurrent ones would take all memory.
  const serially = createSerially();

  /** Answers with what `find` gives for a good query; undefined: there is no such account. */
  const answer =
    <T extends z.ZodObject>(schema: T, find: (query: z.output<T>, request: Request<{ name: string }>) => unknown) =>
    async (request: Request<{ name: string }>, response: Response): Promise<void> => {
      response.set('Cache-Control', 'no-store');
      const read = readQuery(schema, request.query);
      if (read.error !== undefined) return refuse(response, 400, read.error);
      const { query } = read;
      await serially(async () => {
        if (response.destroyed) return;
        const found = await find(query, request);
        if (found === undefined) notFound(response);
        else response.json(found);
      });
    };

  return Router()
    .get(
      '/api/v1/overview',
      answer(OverviewQuery, query => served.overview(query)),
    )
    .get(
      '/api/v1/accounts/:name',
      answer(NO_QUERY, async (_query, { params: { name } }) => {
        // Nothing is read for a name that is not configured.
        if (!served.accounts.includes(name)) return undefined;
        await served.replicas?.refresh();
        return served.account(name);
      }),
    )
    .get(
      '/api/v1/accounts/:name/history',
      answer(HistoryQuery, (query, { params: { name } }) =>
        served.accounts.includes(name) ? served.history(name, query) : undefined,
      ),
    )
    .get(
      '/api/v1/auto-cancel',
      answer(AutoCancelQuery, ({ account }) =>
        account === undefined || served.accounts.includes(account) ? served.autoCancel(account) : undefined,
      ),
    )
    .get(
      '/api/v1/agent',
      answer(NO_QUERY, () => served.agent()),
    )
    .get(
      '/api/v1/openapi.json',
      answer(NO_QUERY, () => JSON.parse(readDocument('openapi.json'))),
    )
    .all(PATHS, onlyAllow(READ))
    .use(refusePath);
}
