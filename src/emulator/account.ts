import type { RequestListener } from 'node:http';
import express, { type ErrorRequestHandler, type Request, type RequestHandler } from 'express';
import type { Clock } from '../kit/clock.ts';
import type { EmulatedCredentials } from './credentials.ts';
import { type Dialect, dialectWith } from './dialect.ts';
import { createFaults, type FaultSeed, type Faults } from './faults.ts';
import { access } from './routes/access.ts';
import { recordCancels } from './routes/callback.ts';
import { createRouting } from './routes/endpoint.ts';
import { createEndpoints } from './routes/endpoints.ts';
import { injectFaults } from './routes/inject-faults.ts';
import { scenarioNamed } from './scenarios.ts';
import { EmulatorState } from './state.ts';
import type { WorldOptions } from './world.ts';

/** One customer of the service, with separate tokens, rows, dialect and faults. */
export interface EmulatedAccount {
  readonly token: string;
  readonly readOnlyToken: string;
  readonly credentials: EmulatedCredentials;
  readonly state: EmulatorState;
  readonly dialect: Dialect;
  readonly faults: Faults;
}

export interface AccountParts extends Omit<WorldOptions, 'dialect'> {
  readonly credentials: EmulatedCredentials;
  readonly realClock: Clock;
  readonly closing: AbortSignal;
  readonly dialect: Partial<Dialect>;
  readonly faults: readonly FaultSeed[];
}

/** Creates an account. The first request builds its world, so that a thousand accounts start quickly. */
export function createAccount(parts: AccountParts): EmulatedAccount & { readonly answer: RequestListener } {
  const { credentials, clock } = parts;
  const start = clock.now();
  let built: ReturnType<typeof build> | undefined;
  const world = () => {
    built ??= build(parts, start);
    return built;
  };
  return {
    get token() {
      return credentials.token;
    },
    get readOnlyToken() {
      return credentials.readOnlyToken;
    },
    credentials,
    get state() {
      return world().state;
    },
    get dialect() {
      return world().state.dialect;
    },
    get faults() {
      return world().faults;
    },
    answer: (request, response) => world().answer(request, response),
  };
}

function build(parts: AccountParts, start: number) {
  const { credentials, clock, realClock, seed } = parts;
  const scenario = scenarioNamed(parts.scenario);
  const state = new EmulatorState({ ...parts, dialect: dialectWith({ ...scenario.dialect, ...parts.dialect }) });
  const faults = createFaults(seed, () => scenario.fault?.(clock.now() - start));
  faults.replace(parts.faults);
  const find = createRouting(createEndpoints(credentials));
  const endpointOf = (request: Request) => {
    const match = find(request);
    return typeof match === 'object' ? match.endpoint : undefined;
  };
  const endpointName = (request: Request) => endpointOf(request)?.name ?? 'other';
  const loginOf = (request: Request) => endpointOf(request)?.login ?? 'bearer';
  const enter = access(credentials, state.dialect, () => realClock.now(), loginOf);
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.get(['/', '/_emulator/state'], showState(state, credentials, parts.scenario));
  app.use((request, _response, next) => {
    state.tally.countCall(endpointName(request));
    next();
  });
  app.use(recordCancels(state));
  app.use(injectFaults(faults, realClock, parts.closing, endpointName));
  app.use((request, response, next) => {
    if (request.path.startsWith('/v2/') || endpointOf(request)) enter(request, response, next);
    else next();
  });
  app.use((request, response) => {
    const match = find(request);
    if (match === undefined) response.status(404).json({ error: `not found: ${request.path}` });
    else if (match === 'wrongMethod') response.status(405).type('text/plain').send('Method Not Allowed\n');
    else {
      const parameter = decode(match.encoded);
      if (parameter === undefined) response.status(400).json({ error: `invalid encoding: ${request.path}` });
      else match.endpoint.handle(state, request, response, parameter);
    }
  });
  app.use(answerError);
  return { state, faults, answer: app };
}

/** Creates a handler that shows the state, which is counted independently of the emulated API. Needs no token. */
const showState =
  (state: EmulatorState, credentials: EmulatedCredentials, scenario: string): RequestHandler =>
  (_request, response) => {
    const { now, dlq, workflows } = state.current();
    const byResponseStatus: Record<string, number> = {};
    for (const timeline of [dlq, workflows])
      timeline.forEach(({ responseStatus }) => {
        byResponseStatus[responseStatus] = (byResponseStatus[responseStatus] ?? 0) + 1;
      });
    response.json({
      now,
      scenario,
      calls: state.calls(),
      dlq: { total: dlq.size + workflows.size, ofWorkflows: workflows.size, byResponseStatus },
      callbacks: { byState: state.countCallbacks(), cancelCalls: state.tally.cancelCalls },
      events: { byState: state.countEvents(), listedUntil: state.logView.until(now) },
      waitlists: Object.fromEntries(state.waitlists()),
      tokenResets: credentials.resets,
    });
  };

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
