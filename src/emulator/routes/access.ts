import type { Request, RequestHandler } from 'express';
import type { EmulatedCredentials } from '../credentials.ts';
import type { Dialect } from '../dialect.ts';
import type { Route } from './endpoint.ts';

/** Rejects requests that lack a valid token or permission, or that exceed the burst limit. */
export function access(
  credentials: EmulatedCredentials,
  dialect: Dialect,
  now: () => number,
  loginOf: (request: Request) => Route['login'],
): RequestHandler {
  const take = createBurst(now);
  return (request, response, next) => {
    const right = credentials.rightOf(request.headers.authorization, loginOf(request));
    if (!right) {
      response.status(401).json({ error: 'unable to authenticate: invalid token' });
      return;
    }
    const { allowed, remaining, resetAt } = take(dialect.requestsPerSecond);
    response.set({
      'Burst-RateLimit-Limit': String(dialect.requestsPerSecond),
      'Burst-RateLimit-Remaining': String(remaining),
      'Burst-RateLimit-Reset': String(dialect.burstReset === 'seconds' ? Math.ceil(resetAt / 1000) : resetAt),
    });
    if (!allowed) response.status(429).json({ error: 'rate limit exceeded' });
    else if (right === 'read' && request.method !== 'GET') {
      const error = 'the read-only token cannot be used for this request';
      response.status(Number(dialect.readOnlyWrite)).json({ error });
    } else next();
  };
}

const WINDOW_MS = 1000;

/** Counts requests per second of real time, as the documented burst limit does. */
function createBurst(now: () => number) {
  let start = Number.NEGATIVE_INFINITY;
  let taken = 0;
  return (limit: number) => {
    const time = now();
    if (time >= start + WINDOW_MS || time < start) {
      start = time;
      taken = 0;
    }
    const allowed = taken < limit;
    if (allowed) taken++;
    return { allowed, remaining: Math.max(0, limit - taken), resetAt: start + WINDOW_MS };
  };
}
