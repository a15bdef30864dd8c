import type { Request, Response } from 'express';
import type { EmulatorState } from '../state.ts';

/** Handler of a request. `parameter`: the decoded path parameter, or "". */
export type Handler = (state: EmulatorState, request: Request, response: Response, parameter: string) => void;

/** `bearer`: token of the data API. `account`: Basic authentication of the account-management API. */
export type Login = 'bearer' | 'account';

/** Creates endpoints from handlers. A path may have one parameter: `{id}` for a segment, `{+key}` for the rest. */
export const endpointsOf = (login: Login, handlers: Readonly<Record<string, Handler>>) =>
  Object.entries(handlers).map(([route, handle]) => {
    const [method = '', path = ''] = route.split(' ');
    const pattern = path.replace(/\{\+\w+\}/, '(.+)').replace(/\{\w+\}/, '([^/]+)');
    return {
      name: route.replace('{+', '{'),
      method: method.toLowerCase() as 'get',
      pattern: new RegExp(`^${pattern}$`),
      login,
      handle,
    };
  });
