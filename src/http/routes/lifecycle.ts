import type { IncomingMessage } from 'node:http';
import express, { type NextFunction, type Request, type Response, Router } from 'express';
import { z } from 'zod';
import { whenOver } from '../response-limiter.ts';
import type { HttpServed } from '../served.ts';
import { hasBody, onlyAllow } from './methods.ts';

export interface Lifecycle {
  /** Returns the setting `server.lifecycle`. */
  isOn(): boolean;
  /** Returns the user, or the name in the client certificate; undefined without authentication. */
  callerOf(request: IncomingMessage): string | undefined;
}

/** Whether another site caused the request. Only browsers send `Sec-Fetch-Site` or `Origin`. */
export function isCrossSite({
  headers: { 'sec-fetch-site': site, origin, host },
}: Pick<IncomingMessage, 'headers'>): boolean {
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return true;
  if (origin === undefined) return false;
  const from = URL.parse(origin);
  return from === null || from.host === '' || from.host !== URL.parse(`${from.protocol}//${host}`)?.host;
}

const RELOAD = '/-/reload';
const MAX_BODY = '16kb';

const text = z
  .string({ error: 'must be text' })
  .regex(/\S/, { error: 'must not be blank' })
  .max(1000, { error: 'must have at most 1000 characters' });

export const ReasonBody = z.strictObject(
  { reason: text.describe('For the journal.') },
  { error: 'must be an object with reason alone' },
);

export const ApprovalBody = z.strictObject(
  { action: text.describe('Id of a waiting action (or at least its first 6 characters), or the dlqId.') },
  { error: 'must be an object with action alone' },
);

/** Schemas of command bodies by path. A body does not contain the operator's name. */
const COMMANDS = {
  '/api/v1/auto-cancel/approve': ApprovalBody.transform(body => ({ kind: 'approve' as const, ...body })),
  '/api/v1/auto-cancel/pause': ReasonBody.transform(body => ({ kind: 'pause' as const, ...body })),
  '/api/v1/auto-cancel/resume': ReasonBody.transform(body => ({ kind: 'resume' as const, ...body })),
};
type Order = (typeof COMMANDS)[keyof typeof COMMANDS];
const PATHS = [RELOAD, ...Object.keys(COMMANDS)];

const WAITING = 'the account is not open yet: the leader executes the request when it has opened the account';

/** Replaces the messages of the body parser, which quote the body. */
function refuseBody(error: unknown, _request: Request, response: Response, next: NextFunction): void {
  const status = error instanceof Error && 'status' in error ? Number(error.status) : 500;
  if (!(status >= 400 && status < 500)) next(error);
  else response.status(status).json({ error: `the body must be JSON in UTF-8, at most ${MAX_BODY}` });
}

/** Creates the POST routes, which are off by default and refuse cross-site requests. */
export function lifecycleRoutes(served: HttpServed, { isOn, callerOf }: Lifecycle): Router {
  /** Returns why a request is refused; undefined if it is accepted. */
  function refusalOf(request: Request): [status: number, error: string] | undefined {
    if (!isOn()) return [403, 'server.lifecycle is false in the configuration'];
    if (isCrossSite(request)) return [403, 'requests from other sites are refused'];
    if (request.path !== RELOAD && callerOf(request) === undefined) {
      return [403, 'needs a server.webConfigFile with basic_auth_users or RequireAndVerifyClientCert'];
    }
    const isJson = !hasBody(request) || request.is('application/json');
    return isJson ? undefined : [415, 'the body must be JSON, with Content-Type: application/json'];
  }

  function guard(request: Request, response: Response, next: NextFunction): void {
    const [status, error] = refusalOf(request) ?? [];
    if (status === undefined) next();
    else response.status(status).json({ error });
  }

  async function execute(order: Order, request: Request, response: Response): Promise<void> {
    const { data, error } = order.safeParse(request.body ?? {});
    if (error) {
      const found = error.issues.map(({ path, message }) => [...path, message].join(' '));
      response.status(400).json({ error: `the body: ${found.join('; ')}` });
      return;
    }
    const disconnected = new AbortController();
    whenOver(request, response, () => disconnected.abort());
    const result = await served.command({ ...data, by: callerOf(request) ?? 'http' }, disconnected.signal);
    if (result === 'waiting') response.status(202).json({ error: WAITING });
    else if (result.ok) response.json(Object(result.result));
    else response.status(409).json({ error: result.why });
  }

  const router = Router().post(PATHS, guard, express.json({ limit: MAX_BODY }));
  router.post(RELOAD, async (_request, response) => {
    const result = await served.reload();
    response.status('faults' in result ? 400 : 200).json(result);
  });
  for (const [path, order] of Object.entries(COMMANDS)) {
    router.post(path, (request, response) => execute(order, request, response));
  }
  return router.all(PATHS, onlyAllow('POST')).use(refuseBody);
}
