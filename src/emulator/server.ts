import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock } from '../kit/clock.ts';
import { createApp } from './app.ts';
import { createEmulatedClock, type EmulatedClock } from './clock.ts';
import { type Credentials, createCredentials } from './credentials.ts';
import { type Dialect, dialectWith } from './dialect.ts';
import type { FaultSeed } from './fault.ts';
import { createFaults, type Faults } from './faults.ts';
import { scenarioNamed } from './scenarios/index.ts';
import { EmulatorState } from './state.ts';

export { type Dialect, dialectHelp, readDialectOption } from './dialect.ts';
export { type FaultSeed, faultHelp, readFault } from './fault.ts';
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
  /** What requests that change nothing may bear; made up when left out. */
  readonly readOnlyToken?: string;
  /** Real time; default the system's. */
  readonly clock?: Clock;
  /** Milliseconds of workload that have happened at the start; default an hour, at most six. 0 means that nothing has. */
  readonly history?: number;
  /** Whether anything happens that nobody asked for; default true. Without it there is only what is added. */
  readonly workload?: boolean;
  /** How many dead letters are older than the history; default 200. */
  readonly dlqEntries?: number;
  /** How many events are kept, the latest; default a million. None is kept for more than six hours. */
  readonly mostEvents?: number;
  /** How the service speaks, where that is not as usual. */
  readonly dialect?: Partial<Dialect>;
  /** What goes wrong from the start. */
  readonly faults?: readonly FaultSeed[];
}

export interface Emulator {
  /** Base address, without a slash at its end; also that of the account-management interface. */
  readonly url: string;
  /** As of now: a reset changes it. */
  readonly token: string;
  readonly readOnlyToken: string;
  readonly credentials: Credentials;
  readonly state: EmulatorState;
  readonly clock: EmulatedClock;
  /** How it answers; may be changed at any time. */
  readonly dialect: Dialect;
  readonly faults: Faults;
  /** Answers what is under way, then lets go of port and connections. */
  close(): Promise<void>;
}

/** Real milliseconds that requests under way get when the emulator is closed. */
const CLOSING_MS = 1000;

/** Starts an emulator of the service. Rejects when the port cannot be had, with a RangeError when an option makes no sense. */
export async function startEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const { port = 0, host = '127.0.0.1', seed = 1, speed = 1, scenario = 'steady', clock = systemClock } = options;
  const { history = 3_600_000, dlqEntries = 200, mostEvents, workload = true } = options;
  const { description, dialect: usual, fault } = scenarioNamed(scenario);
  const emulated = createEmulatedClock(clock, speed);
  const dialect = dialectWith({ ...usual, ...options.dialect });
  const state = new EmulatorState({
    clock: emulated,
    seed,
    scenario,
    history,
    dlqEntries,
    mostEvents,
    workload,
    dialect,
  });
  const credentials = createCredentials(options.token, options.readOnlyToken);
  const start = emulated.now();
  const faults = createFaults(seed, () => fault?.(emulated.now() - start));
  faults.replace(options.faults ?? []);
  const closing = new AbortController();
  const about = { scenario, description, seed, speed };
  const app = createApp({ state, credentials, faults, clock, closing: closing.signal, about });
  const server = createServer(app);
  server.listen(port, host);
  await once(server, 'listening');
  const bound = server.address() as AddressInfo;
  const name = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  let closed: Promise<void> | undefined;
  return {
    url: `http://${name}:${bound.port}`,
    get token() {
      return credentials.token;
    },
    get readOnlyToken() {
      return credentials.readOnlyToken;
    },
    credentials,
    state,
    clock: emulated,
    dialect,
    faults,
    close() {
      closing.abort();
      closed ??= closeServer(server, clock);
      return closed;
    },
  };
}

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
