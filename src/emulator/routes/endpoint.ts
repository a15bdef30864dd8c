import type { Request, Response } from 'express';
import type { EmulatorState } from '../state.ts';

/** Answers a request; `parameter` is that of the path, decoded, empty when it has none. */
export type Answer = (state: EmulatorState, request: Request, response: Response, parameter: string) => void;

export interface Endpoint {
  /** Such as `GET /v2/dlq/{dlqId}`. */
  readonly name: string;
  readonly method: string;
  readonly pattern: RegExp;
  /** Bearer token of the data addresses, or the Basic authentication of the account-management address. */
  readonly login: 'bearer' | 'account';
  readonly answer: Answer;
}

/** Answers by method and path, which has at most one parameter: `{id}` is a segment, `{+key}` all the rest of the path. */
export const endpointsOf = (login: Endpoint['login'], answers: Readonly<Record<string, Answer>>): Endpoint[] =>
  Object.entries(answers).map(([route, answer]) => {
    const [method = '', path = ''] = route.split(' ');
    const pattern = path.replace(/\{\+\w+\}/, '(.+)').replace(/\{\w+\}/, '([^/]+)');
    return { name: route.replace('{+', '{'), method, pattern: new RegExp(`^${pattern}$`), login, answer };
  });

/** Returns the first endpoint that fits, with the parameter of its path; `wrongMethod` if only other methods fit. */
export const createRouting =
  (endpoints: readonly Endpoint[]) =>
  ({ method, path }: Pick<Request, 'method' | 'path'>) => {
    const fitting = endpoints.filter(({ pattern }) => pattern.test(path));
    const endpoint = fitting.find(endpoint => endpoint.method === method);
    if (endpoint) return { endpoint, encoded: endpoint.pattern.exec(path)?.[1] ?? '' };
    return fitting.length > 0 ? 'wrongMethod' : undefined;
  };
