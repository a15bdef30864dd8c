import type { Request, Response } from 'express';

/** One operation of the service. */
export interface Endpoint {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** With at most one parameter: `{id}` is a segment, `{+key}` all the rest of the path. */
  readonly path: string;
  /** Bearer token of the data addresses, or the Basic authentication of the account-management address. */
  readonly login: 'bearer' | 'account';
  /** Answers; `parameter` is that of the path, decoded, empty when it has none. */
  readonly answer: (request: Request, response: Response, parameter: string) => void;
}

interface Found {
  readonly endpoint: Endpoint;
  /** As it stands in the path. */
  readonly encoded: string;
}

export interface Routing {
  /** The endpoint of a request, or `wrongMethod` when its path has others, or undefined. */
  find(method: string, path: string): Found | 'wrongMethod' | undefined;
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

/** The first endpoint that fits is taken. */
export function createRouting(endpoints: readonly Endpoint[]): Routing {
  const patterns = endpoints.map(endpoint => ({ endpoint, pattern: patternOf(endpoint.path) }));
  return {
    find(method, path) {
      let pathIsKnown = false;
      for (const { endpoint, pattern } of patterns) {
        const match = pattern.exec(path);
        if (match && endpoint.method === method) return { endpoint, encoded: match[1] ?? '' };
        pathIsKnown ||= match !== null;
      }
      return pathIsKnown ? 'wrongMethod' : undefined;
    },
  };
}
