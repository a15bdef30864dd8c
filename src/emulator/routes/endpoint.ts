import type { Request, Response } from 'express';
import type { EmulatorState } from '../state.ts';

/** Answers a request; `parameter` is that of the path, decoded, empty when it has none. */
export type Answer = (state: EmulatorState, request: Request, response: Response, parameter: string) => void;

/** One operation of the service. */
export interface Endpoint {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** With at most one parameter: `{id}` is a segment, `{+key}` all the rest of the path. */
  readonly path: string;
  /** Bearer token of the data addresses, or the Basic authentication of the account-management address. */
  readonly login: 'bearer' | 'account';
  readonly answer: Answer;
}

/** Such as `GET /v2/dlq`. */
export const nameOf = ({ method, path }: Endpoint) => `${method} ${path.replace('{+', '{')}`;

const patternOf = (path: string) =>
  new RegExp(
    `^${path
      .replaceAll('.', '\\.')
      .replace(/\{\+\w+\}/, '(.+)')
      .replace(/\{\w+\}/, '([^/]+)')}$`,
  );

/**
 * Finds the endpoint of a request, the first that fits, with the parameter as it stands in the path; `wrongMethod` when the
 * path has others only.
 */
export function createRouting(endpoints: readonly Endpoint[]) {
  const patterns = endpoints.map(endpoint => ({ endpoint, pattern: patternOf(endpoint.path) }));
  return ({ method, path }: Pick<Request, 'method' | 'path'>) => {
    const fitting = patterns.filter(({ pattern }) => pattern.test(path));
    const found = fitting.find(({ endpoint }) => endpoint.method === method);
    if (found) return { endpoint: found.endpoint, encoded: found.pattern.exec(path)?.[1] ?? '' };
    return fitting.length > 0 ? 'wrongMethod' : undefined;
  };
}
