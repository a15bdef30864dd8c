import express, { type ErrorRequestHandler, type Express, type Request } from 'express';
import type { Clock } from '../kit/clock.ts';
import type { Credentials } from './credentials.ts';
import type { Faults } from './faults.ts';
import { access } from './routes/access.ts';
import { hearCancels } from './routes/callback.ts';
import { createRouting, nameOf } from './routes/endpoint.ts';
import { createEndpoints } from './routes/endpoints.ts';
import { type About, createInside } from './routes/inside.ts';
import { spoil } from './routes/spoil.ts';
import type { EmulatorState } from './state.ts';

export interface AppParts {
  readonly state: EmulatorState;
  readonly credentials: Credentials;
  readonly faults: Faults;
  /** Real time. */
  readonly clock: Clock;
  readonly closing: AbortSignal;
  readonly about: Omit<About, 'endpoints'>;
}

/** Everything that the emulator answers: a request is counted, spoilt, let in, and answered, in this order. */
export function createApp({ state, credentials, faults, clock, closing, about }: AppParts): Express {
  const endpoints = createEndpoints(state, credentials);
  const routing = createRouting(endpoints);
  const found = (request: Request) => {
    const match = routing.find(request.method, request.path);
    return match === 'wrongMethod' ? undefined : match?.endpoint;
  };
  const endpointOf = (request: Request) => {
    const endpoint = found(request);
    return endpoint ? nameOf(endpoint) : 'other';
  };
  const enter = access({
    credentials,
    dialect: state.dialect,
    now: () => clock.now(),
    loginOf: request => found(request)?.login ?? 'bearer',
  });
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.use(createInside({ state, credentials, faults, about: { ...about, endpoints: endpoints.map(nameOf) } }));
  app.use((request, _response, next) => {
    state.tally.countCall(endpointOf(request));
    next();
  });
  app.use(hearCancels(state));
  app.use(spoil({ faults, clock, closing, endpointOf }));
  app.use((request, response, next) => {
    if (request.path.startsWith('/v2/') || found(request)) enter(request, response, next);
    else next();
  });
  app.use((request, response) => {
    const match = routing.find(request.method, request.path);
    if (match === undefined) response.status(404).json({ error: `not found: ${request.path}` });
    else if (match === 'wrongMethod') response.status(405).type('text/plain').send('Method Not Allowed\n');
    else {
      const parameter = decode(match.encoded);
      if (parameter === undefined) response.status(400).json({ error: `invalid encoding: ${request.path}` });
      else match.endpoint.answer(request, response, parameter);
    }
  });
  app.use(answerError);
  return app;
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

const answerError: ErrorRequestHandler = (error, _request, response, _next) => {
  const status = error instanceof Error && 'status' in error ? Number(error.status) : 500;
  response.status(status).json({ error: error instanceof Error ? error.message : String(error) });
};
