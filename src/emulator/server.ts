import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express';
import { type Clock, systemClock } from '../kit/clock.ts';
import { createEmulatedClock, type EmulatedClock } from './clock.ts';
import { bearer } from './routes/bearer.ts';
import { listDlq } from './routes/dlq.ts';
import { listEvents } from './routes/events.ts';
import { listFlowControl } from './routes/flow-control.ts';
import { type About, showHome, showState } from './routes/inside.ts';
import { scenarioNamed } from './scenarios/index.ts';
import { EmulatorState } from './state.ts';

export { scenarios } from './scenarios/index.ts';

export interface EmulatorOptions {
  /** 0, the default, takes any free port. */
  readonly port?: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Decides everything that the workload makes up; default 1. */
  readonly seed?: number;
  /** Emulated milliseconds per millisecond: 1, the default, is real time, 0 is frozen. */
  readonly speed?: number;
  /** One of `scenarios`; default `steady`. */
  readonly scenario?: string;
  /** What requests must bear; made up when left out. */
  readonly token?: string;
  /** Real time; default the system's. */
  readonly clock?: Clock;
  /** Milliseconds of workload that have happened at the start; default an hour, at most six. */
  readonly history?: number;
  /** How many dead letters are older than the history; default 200. */
  readonly dlqEntries?: number;
}

export interface Emulator {
  /** Base address, without a slash at its end. */
  readonly url: string;
  readonly token: string;
  readonly state: EmulatorState;
  readonly clock: EmulatedClock;
  /** Answers what is under way, then lets go of port and connections. */
  close(): Promise<void>;
}

/** Real milliseconds that requests under way get when the emulator is closed. */
const CLOSING_MS = 1000;

/** Starts an emulator of the service. Rejects when the port cannot be had, with a RangeError when an option makes no sense. */
export async function startEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const { port = 0, host = '127.0.0.1', seed = 1, speed = 1, scenario = 'steady', clock = systemClock } = options;
  const { token = randomBytes(18).toString('base64url'), history = 3_600_000, dlqEntries = 200 } = options;
  const { description } = scenarioNamed(scenario);
  const emulated = createEmulatedClock(clock, speed);
  const state = new EmulatorState({ clock: emulated, seed, scenario, history, dlqEntries });
  const server = createServer(createApp(state, token, { scenario, description, seed, speed }));
  server.listen(port, host);
  await once(server, 'listening');
  const bound = server.address() as AddressInfo;
  const name = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  let closed: Promise<void> | undefined;
  return {
    url: `http://${name}:${bound.port}`,
    token,
    state,
    clock: emulated,
    close() {
      closed ??= closeServer(server, clock);
      return closed;
    },
  };
}

function createApp(state: EmulatorState, token: string, about: Omit<About, 'endpoints'>): Express {
  const endpoints: Readonly<Record<string, RequestHandler>> = {
    '/v2/dlq': listDlq(state),
    '/v2/events': listEvents(state, 'events'),
    '/v2/logs': listEvents(state, 'logs'),
    '/v2/flowControl': listFlowControl(state),
  };
  const known = { ...about, endpoints: Object.keys(endpoints).map(path => `GET ${path}`) };
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('strict routing');
  app.enable('case sensitive routing');
  app.get('/', showHome(known));
  app.get('/_emulator/state', showState(state, known));
  app.use((request, _response, next) => {
    const endpoint = `${request.method} ${request.path}`;
    state.countCall(known.endpoints.includes(endpoint) ? endpoint : 'other');
    next();
  });
  app.use('/v2', bearer(token));
  for (const [path, answer] of Object.entries(endpoints)) {
    app.get(path, answer);
    app.all(path, (_request, response) => {
      response.status(405).type('text/plain').send('Method Not Allowed\n');
    });
  }
  app.use((request, response) => {
    response.status(404).json({ error: `not found: ${request.path}` });
  });
  app.use(answerError);
  return app;
}

const answerError: ErrorRequestHandler = (error, _request, response, _next) => {
  const status = error instanceof Error && 'status' in error ? Number(error.status) : 500;
  response.status(status).json({ error: error instanceof Error ? error.message : String(error) });
};

async function closeServer(server: Server, clock: Clock): Promise<void> {
  const waiting = new AbortController();
  const closed = once(server, 'close').then(() => waiting.abort());
  server.close();
  server.closeIdleConnections();
  // A connection that has not sent a whole request is not idle to Node, and would keep the server open.
  await clock.sleep(CLOSING_MS, waiting.signal).catch(() => {});
  server.closeAllConnections();
  await closed;
}
