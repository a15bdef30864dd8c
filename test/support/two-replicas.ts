import { type AgentCore, openCore } from '../../src/agent/agent.ts';
import { afterThisTest } from './client.ts';
import { emulateEmpty } from './emulate.ts';
import { eventually } from './eventually.ts';
import { createSharedStore, type SharedStore } from './fake-replicas.ts';
import { createManualClock, type ManualClock } from './manual-clock.ts';
import { loadedFrom } from './view-scene.ts';

const SECOND = 1000;

/** Two agents with the same configuration and a shared in-memory store. One holds the account alpha, the other beta. */
export interface TwoReplicas {
  readonly emulator: Awaited<ReturnType<typeof emulateEmpty>>;
  readonly clock: ManualClock;
  readonly shared: SharedStore;
  readonly one: AgentCore;
  readonly two: AgentCore;
  /** Advances time in steps of `step` seconds (default: 5) until `attempt` does not throw. */
  until<T>(attempt: () => Promise<T> | T, step?: number): Promise<T>;
}

/** Starts both agents; `one` acquires alpha, `two` acquires beta. `config` overrides the default configuration. */
export async function startTwoReplicas(config: object = {}): Promise<TwoReplicas> {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 12));
  const emulator = await emulateEmpty({ clock, token: 'view-token', dialect: { flowControlFields: 'all' } });
  const shared = createSharedStore(clock);
  shared.place('alpha', 'one');
  shared.place('beta', 'two');
  const usual = { baseUrl: emulator.url, token: 'view-token', budget: { requestsPerSecond: 1000, burst: 1000 } };
  const accounts = ['alpha', 'beta'].map(name => ({ name, ...usual, labels: { team: name } }));
  const start = async (id: string) => {
    const openStore = async () => shared.join(id);
    const core = await openCore(loadedFrom({ accounts, ...config }), {
      env: {},
      clock,
      random: () => 0,
      openStore,
    });
    afterThisTest(() => core.close());
    core.start();
    return core;
  };
  const [one, two] = [await start('one'), await start('two')];
  return {
    emulator,
    clock,
    shared,
    one,
    two,
    until: (attempt, step = 5) =>
      eventually(async () => {
        await clock.advance(step * SECOND);
        return attempt();
      }, 20_000),
  };
}
