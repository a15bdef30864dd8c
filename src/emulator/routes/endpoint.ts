import type { Request, Response } from 'express';
import type { EmulatorState } from '../state.ts';

/** Handler of a request. `parameter`: the decoded path parameter, or "". */
export type Handler = (state: EmulatorState, request: Request, response: Response, parameter: string) => void;

export interface Route {
  /** For example `GET /v2/dlq/{dlqId}`. */
  readonly name: string;
  readonly method: string;
  readonly pattern: RegExp;
  /** `bearer`: token of the data API. `account`: Basic authentication of the account-management API. */
  readonly login: 'bearer' | 'account';
  readonly handle: Handler;
}

/** Creates endpoints from handlers. A path may have one parameter: `{id}` for a segment, `{+key}` for the rest. */
export const endpointsOf = (login: Route['login'], handlers: Readonly<Record<string, Handler>>): Route[] =>
  Object.entries(handlers).map(([route, handle]) => {
    const [method = '', path = ''] = route.split(' ');
    const pattern = path.replace(/\{\+\w+\}/, '(.+)').replace(/\{\w+\}/, '([^/]+)');
    return { name: route.replace('{+', '{'), method, pattern: new RegExp(`^${pattern}$`), login, handle };
  });

/** Returns a function that returns the first matching endpoint, or `wrongMethod` if only other methods match. */
export const createRouting =
  (endpoints: readonly Route[]) =>
  ({ method, path }: Pick<Request, 'method' | 'path'>) => {
    const fitting = endpoints.filter(({ pattern }) => pattern.test(path));
    const endpoint = fitting.find(endpoint => endpoint.method === method);
    if (endpoint) return { endpoint, encoded: endpoint.pattern.exec(path)?.[1] ?? '' };
    return fitting.length > 0 ? 'wrongMethod' : undefined;
  };
