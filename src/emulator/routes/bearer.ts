import type { RequestHandler } from 'express';

/** Lets only requests with this token pass. */
export function bearer(token: string): RequestHandler {
  return (request, response, next) => {
    if (request.headers.authorization === `Bearer ${token}`) next();
    else response.status(401).json({ error: 'unable to authenticate: invalid token' });
  };
}
