import type { Request } from 'express';

/** The query of a request, each parameter with all its values. */
export function parametersOf(request: Request): URLSearchParams {
  const start = request.url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : request.url.slice(start + 1));
}
