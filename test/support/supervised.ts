/** Creates a supervisor with a manual clock and an in-memory service. */
import { Dispatcher } from 'undici';
import { openAccount } from '../../src/agent/account.ts';
import { type AgentBase, openBase, type PartsDeps } from '../../src/agent/base.ts';
import { Supervisor } from '../../src/agent/supervisor.ts';
import type { LoadedConfig } from '../../src/config/load.ts';
import { createClosing } from '../../src/kit/closing.ts';
import type { Store } from '../../src/store/store.ts';
import { afterThisTest } from './client.ts';
import type { ManualClock } from './manual-clock.ts';
import { createTestLog } from './silent.ts';
import { loadedFrom } from './view-scene.ts';

type Open = typeof openAccount;
type Deps = Parameters<Open>[1];
type Account = Awaited<ReturnType<Open>>;

/** Arguments with which the supervisor opens an account. */
export interface Opening {
  readonly settings: Parameters<Open>[0];
  readonly deps: Deps;
}

export interface SupervisedOptions {
  readonly clock: ManualClock;
  readonly store: Store;
  readonly config: LoadedConfig;
  /** Response time of the service (ms). */
  readonly latency?: number;
  readonly intervals?: PartsDeps['intervals'];
  /** Wraps each opening of an account. `open` opens it, optionally with other dependencies. */
  open?(opening: Opening, open: (other?: Partial<Deps>) => Promise<Account>): Promise<Account>;
  /** Wraps each request. */
  request?(opening: Opening, send: () => Promise<void>): Promise<void>;
  /** Replaces dependencies of the supervisor. */
  adapt?(base: AgentBase): AgentBase;
}

export interface Response {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

const ONE_KEY: Response = { status: 200, body: { flowControls: [{ flowControlKey: 'key', waitListSize: 7 }] } };

/** Connections to a service without sockets. By default, it returns one flow-control key for every request. */
export class Connections extends Dispatcher {
  readonly #respond: (signal: AbortSignal, path: string) => Promise<Response | undefined>;

  constructor(respond: (signal: AbortSignal, path: string) => Promise<Response | undefined>) {
    super();
    this.#respond = respond;
  }

  override dispatch({ path }: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const aborting = new AbortController();
    const controller = {
      rawHeaders: [],
      rawTrailers: [],
      paused: false,
      reason: null,
      get aborted() {
        return aborting.signal.aborted;
      },
      abort: (reason: Error) => aborting.abort(reason),
      pause: () => undefined,
      resume: () => undefined,
    };
    handler.onRequestStart?.(controller, {});
    this.#respond(aborting.signal, path).then(
      response => {
        const { status, headers, body } = response ?? ONE_KEY;
        handler.onResponseStart?.(controller, status, { 'content-type': 'application/json', ...headers }, 'OK');
        handler.onResponseData?.(controller, Buffer.from(JSON.stringify(body)));
        handler.onResponseEnd?.(controller, {});
      },
      error => handler.onResponseError?.(controller, error),
    );
    return true;
  }
}

/** Returns settings of an account with an effectively unlimited budget. */
export const accountNamed = (name: string, more: object = {}) => ({
  name,
  baseUrl: 'http://service.invalid',
  token: `token-${name}`,
  budget: { requestsPerSecond: 1000, burst: 1000 },
  ...more,
});

/** Returns a configuration with these accounts, which only poll flow control. */
export const configOf = (accounts: readonly object[], more: object = {}) =>
  loadedFrom({
    accounts,
    collect: { flowControl: { every: '1s' }, dlq: { enabled: false }, events: { enabled: false } },
    ...more,
  });

/** Opens a supervisor that is stopped and closed after the test. Nothing runs before its `start`. */
export async function openSupervised(options: SupervisedOptions) {
  const { clock, store, config, latency = 10, intervals, open, request, adapt } = options;
  const closing = createClosing();
  const log = Object.assign(createTestLog(), { use: () => undefined });

  // A separate function, because closures in the next one would keep `last` reachable.
  function connect(opening: Opening): Pick<Deps, 'dispatchers'> {
    const connections = new Connections(async signal => {
      const send = () => clock.sleep(latency, signal);
      await (request ? request(opening, send) : send());
      return undefined;
    });
    return { dispatchers: { for: () => connections } };
  }
  const openFromMemory: Open = async (settings, deps, last) => {
    const opening: Opening = { settings, deps };
    const own = { ...deps, ...connect(opening) };
    const openUsual = (other: Partial<Deps> = {}) => openAccount(settings, { ...own, ...other }, last);
    return open ? open(opening, openUsual) : openUsual();
  };

  const deps = { env: {}, clock, random: () => 0, openStore: async () => store, ...(intervals && { intervals }) };
  const opened = await openBase(config, deps, closing);
  const base: AgentBase = { ...opened, log, openAccount: openFromMemory };
  const supervisor = await Supervisor.open(config, adapt?.(base) ?? base);
  closing.add('accounts', () => supervisor.close());
  closing.add('loops', () => supervisor.stop());
  afterThisTest(closing.close);
  return { supervisor, base, log, close: closing.close };
}
