import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { type Clock, systemClock } from '../kit/clock.ts';
import { createEmulatedClock, type EmulatedClock } from './clock.ts';
import { EmulatedCredentials } from './credentials.ts';
import type { Destination } from './destinations.ts';
import { type Dialect, dialectWith } from './dialect.ts';
import { createFaults, type FaultSeed, type Faults } from './faults.ts';
import { fractionOf } from './random.ts';
import { recordCancels } from './routes/dlq.ts';
import type { Login } from './routes/endpoint.ts';
import { createEndpoints } from './routes/endpoints.ts';
import { injectFaults } from './routes/inject-faults.ts';
import { scenarioNamed } from './scenarios.ts';
import { EmulatorState } from './state.ts';
import type { WorldOptions } from './world.ts';

/** Rejects requests that lack a valid token or permission, or that exceed the burst limit. */
function access(
  credentials: EmulatedCredentials,
  dialect: Dialect,
  take: ReturnType<typeof createBurst>,
  login: Login,
): RequestHandler {
  return (request, response, next) => {
    const right = credentials.rightOf(request.headers.authorization, login);
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

/** One customer of the service, with separate tokens, rows, dialect and faults. */
export interface EmulatedAccount {
  readonly token: string;
  readonly credentials: EmulatedCredentials;
  readonly state: EmulatorState;
  readonly dialect: Dialect;
  readonly faults: Faults;
}

interface AccountParts extends Omit<WorldOptions, 'dialect'> {
  readonly credentials: EmulatedCredentials;
  readonly realClock: Clock;
  readonly closing: AbortSignal;
  readonly dialect: Partial<Dialect>;
  readonly faults: readonly FaultSeed[];
}

/** Creates an account. The first request builds its world, so that a thousand accounts start quickly. */
function createAccount(parts: AccountParts): EmulatedAccount & { readonly answer: RequestListener } {
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
  const take = createBurst(() => realClock.now());
  const enter = (login: Login) => access(credentials, state.dialect, take, login);
  /** Returns handlers that count a request and inject faults. */
  const receive = (endpoint: string): RequestHandler[] => [
    (_request, _response, next) => {
      state.countCall(endpoint);
      next();
    },
    injectFaults(faults, realClock, parts.closing, endpoint),
  ];
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.get(['/', '/_emulator/state'], showState(state, credentials, parts.scenario));
  app.use(recordCancels(state));
  const patterns: RegExp[] = [];
  for (const { name, method, pattern, login, handle } of createEndpoints(credentials)) {
    patterns.push(pattern);
    const answer: RequestHandler = (request, response) => handle(state, request, response, request.params[0] ?? '');
    app[method](pattern, receive(name), enter(login), answer);
  }
  app.use(receive('other'));
  app.use('/v2/', enter('bearer'));
  app.all(patterns, (_request, response) => void response.status(405).type('text/plain').send('Method Not Allowed\n'));
  app.use((request, response) => void response.status(404).json({ error: `not found: ${request.path}` }));
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
      callbacks: { byState: state.countCallbacks(), cancelCalls: state.cancelCalls },
      events: { byState: state.countEvents(), listedUntil: state.logView.until(now) },
      waitlists: Object.fromEntries(state.waitlists()),
      tokenResets: credentials.resets,
    });
  };

const answerError: ErrorRequestHandler = (error, _request, response, _next) => {
  const status = error instanceof Error && 'status' in error ? Number(error.status) : 500;
  response.status(status).json({ error: error instanceof Error ? error.message : String(error) });
};

export interface EmulatorOptions {
  readonly port?: number;
  /** Seed of all random draws; default 1. */
  readonly seed?: number;
  /** Number of accounts, each with its own tokens and rows; default 1. */
  readonly accounts?: number;
  /** Speed of emulated time relative to real time; default 1. 0 freezes it. */
  readonly speed?: number;
  /** One of `scenarios`; default `steady`. */
  readonly scenario?: string;
  /** Token of the first account; default random. */
  readonly token?: string;
  /** Read-only token of the first account; default random. */
  readonly readOnlyToken?: string;
  readonly clock?: Clock;
  /**
   * Duration of the workload simulated before the start (ms), at most six hours. Default: an hour, or five minutes with several
   * accounts.
   */
  readonly history?: number;
  /** Whether to simulate a workload; default true. Otherwise, only tests add rows after the start. */
  readonly workload?: boolean;
  /** Number of dead letters per account that predate the history; default 200. */
  readonly dlqEntries?: number;
  /** Maximum number of events per account; default: an equal share of a million, at least 5,000. */
  readonly maxEvents?: number;
  /** Default: see destinations.ts. */
  readonly destinations?: readonly Destination[];
  readonly dialect?: Partial<Dialect>;
  readonly faults?: readonly FaultSeed[];
}

export interface Emulator extends EmulatedAccount {
  /** Base URL of all APIs, without a trailing slash. */
  readonly url: string;
  readonly clock: EmulatedClock;
  /** The first account is the emulator itself. It also handles requests without a known secret. */
  readonly accounts: readonly [EmulatedAccount, ...EmulatedAccount[]];
  readonly listener: RequestListener;
  /** Waits up to a second for running requests, then closes all connections. */
  close(): Promise<void>;
}

const CLOSING_MS = 1000;

/** Idle timeout of a connection (ms). Node's default of 5 s is too short for a busy emulator. */
const KEEP_ALIVE = 60_000;

/** Number of events that all accounts share, and the minimum share of an account. */
const MAX_EVENTS = 1_000_000;
const MIN_SHARE = 5000;

/** Starts an emulator. Rejects if the port is unavailable, or with a RangeError for an unknown scenario. */
export async function startEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const { port = 0, seed = 1, speed = 1, scenario = 'steady', clock = systemClock } = options;
  const { accounts: count = 1, dlqEntries = 200, workload = true, dialect = {}, faults = [] } = options;
  const { history = count === 1 ? 3_600_000 : 300_000 } = options;
  const { maxEvents = Math.max(MIN_SHARE, Math.floor(MAX_EVENTS / count)) } = options;
  const emulated = createEmulatedClock(clock, speed);
  const closing = new AbortController();
  const { destinations } = options;
  const world = { scenario, history, dlqEntries, maxEvents, workload, destinations };
  const common = { ...world, clock: emulated, realClock: clock, dialect, faults, closing: closing.signal };
  const account = (number: number) =>
    createAccount({
      ...common,
      seed: number === 1 ? seed : Math.floor(fractionOf(seed, `account ${number}`) * 2 ** 31),
      credentials:
        number === 1
          ? new EmulatedCredentials('owner@example.com', options.token, options.readOnlyToken)
          : new EmulatedCredentials(`owner-${number}@example.com`),
    });
  const first = account(1);
  const accounts = [first, ...Array.from({ length: count - 1 }, (_, index) => account(index + 2))] as const;
  // Build the state now, to reject an unknown scenario here.
  first.state.advanceTo(emulated.now());
  const listener = dispatch(accounts, emulated);
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE }, listener);
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  let closed: Promise<void> | undefined;
  return Object.assign(first, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    clock: emulated,
    accounts,
    listener,
    close() {
      closing.abort();
      closed ??= closeServer(server, clock);
      return closed;
    },
  });
}

type Account = ReturnType<typeof createAccount>;

/** Selects the account by the secret. The first account rejects unknown secrets. */
function dispatch(accounts: readonly [Account, ...Account[]], { now }: EmulatedClock): RequestListener {
  return (request, response) => {
    response.setHeader('date', new Date(now()).toUTCString());
    const { authorization } = request.headers;
    const owner = accounts.find(
      ({ credentials }) =>
        credentials.rightOf(authorization, 'bearer') ?? credentials.rightOf(authorization, 'account'),
    );
    (owner ?? accounts[0]).answer(request, response);
  };
}

async function closeServer(server: Server, clock: Clock): Promise<void> {
  const waiting = new AbortController();
  const closed = once(server, 'close').then(() => waiting.abort());
  server.close();
  // Node.js keeps the server open for a connection with an incomplete request.
  await clock.sleep(CLOSING_MS, waiting.signal).catch(() => {});
  server.closeAllConnections();
  await closed;
}
