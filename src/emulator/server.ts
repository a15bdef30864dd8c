import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock } from '../kit/clock.ts';
import { createAccount, type EmulatedAccount } from './account.ts';
import { createEmulatedClock, type EmulatedClock } from './clock.ts';
import { EmulatedCredentials } from './credentials.ts';
import type { Destination } from './destinations.ts';
import type { Dialect } from './dialect.ts';
import type { FaultSeed } from './faults.ts';
import { fractionOf } from './random.ts';

export type { EmulatedAccount } from './account.ts';
export type { Destination } from './destinations.ts';
export type { Dialect } from './dialect.ts';
export type { FaultSeed } from './faults.ts';
export { scenarios } from './scenarios.ts';

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
  /** Request handler, for use in another server. */
  readonly listener: RequestListener;
  /** Waits up to a second for running requests, then closes all connections. */
  close(): Promise<void>;
}

const CLOSING_MS = 1000;

/** Idle timeout of a connection (ms). Node's default of 5 s is too short for a busy emulator. */
const KEEP_ALIVE = 60_000;

/** Maximum number of events of all accounts, and the minimum per account. */
const MAX_EVENTS = 1_000_000;
const MIN_SHARE = 5000;

/** Starts an emulator. Rejects if the port is unavailable, or with a RangeError for invalid options. */
export async function startEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const { port = 0, seed = 1, speed = 1, scenario = 'steady', clock = systemClock } = options;
  const { accounts: count = 1, dlqEntries = 200, workload = true, dialect = {}, faults = [] } = options;
  if (!(Number.isInteger(count) && count > 0))
    throw new RangeError(`accounts must be a whole number above 0, got ${count}`);
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
  // Build the state now, to reject invalid options here.
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
  server.closeIdleConnections();
  // Node.js keeps the server open for a connection with an incomplete request.
  await clock.sleep(CLOSING_MS, waiting.signal).catch(() => {});
  server.closeAllConnections();
  await closed;
}
