import { type AgentCore, openCore } from '../../src/agent/agent.ts';
import { Config } from '../../src/config/schema.ts';
import type { AccountView } from '../../src/status/api/account.ts';
import { afterThisTest } from './client.ts';
import { emulateEmpty } from './emulate.ts';
import { eventually } from './eventually.ts';
import { createManualClock, type ManualClock } from './manual-clock.ts';
import { type ParsedFamily, parseExposition } from './parse-exposition.ts';

const SECOND = 1000;
/** Timeout (ms on an idle machine), more than ten times the longest wait. */
const TIMEOUT = 10_000;

/** Parses a configuration. */
export const loadedFrom = (config: object) => ({
  file: 'test',
  hash: '0123456789abcdef',
  warnings: [],
  config: Config.parse({ log: { level: 'silent' }, store: { kind: 'memory' }, ...config }),
});

/** An agent without an HTTP server that reads one account of the emulated service. Time is fixed until a test advances it. */
export interface ViewScene {
  readonly emulator: Awaited<ReturnType<typeof emulateEmpty>>;
  readonly clock: ManualClock;
  readonly core: AgentCore;
  start(): void;
  view(): AccountView;
  exposition(): Promise<ParsedFamily[]>;
  /** Advances time in steps of `step` seconds (default: 0) until `attempt` does not throw. */
  until(attempt: (view: AccountView) => void, step?: number): Promise<void>;
}

export const NAME = 'acme';

/** Creates the agent and the emulated service. `account` and `config` override the default settings. */
export async function createViewScene(account: object = {}, config: object = {}): Promise<ViewScene> {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 12));
  const emulator = await emulateEmpty({ clock, token: 'view-token', dialect: { flowControlFields: 'all' } });
  const common = { baseUrl: emulator.url, token: 'view-token', budget: { requestsPerSecond: 1000, burst: 1000 } };
  const loaded = loadedFrom({ accounts: [{ name: NAME, ...common, ...account }], ...config });
  const core = await openCore(loaded, { env: {}, clock, random: () => 0 });
  afterThisTest(() => core.close());
  function view(): AccountView {
    const found = core.served.views().account(NAME);
    if (!found) throw new Error('unknown account');
    return found;
  }
  return {
    emulator,
    clock,
    core,
    start: core.start,
    view,
    exposition: async () =>
      parseExposition((await core.served.exposition('everything', 'text', false)).body.toString(), 'text'),
    until: (attempt, step = 0) =>
      eventually(async () => {
        await clock.advance(step * SECOND);
        attempt(view());
      }, TIMEOUT),
  };
}
