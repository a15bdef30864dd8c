/** Runs an agent on an emulated service in simulated time, then backtests the resulting event log. */
import { openBase } from '../../../src/agent/parts.ts';
import { Supervisor } from '../../../src/agent/supervisor.ts';
import { type AccountResult, type AlertChange, backtest } from '../../../src/cli/backtest/run.ts';
import type { Destination } from '../../../src/emulator/destinations.ts';
import { startEmulator } from '../../../src/emulator/server.ts';
import { withClosing } from '../../../src/kit/closing.ts';
import { createDrivenClock } from '../../support/course.ts';
import { loadedFrom } from '../../support/view-scene.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const OVERLAP = MINUTE;

/** Lets `backtest` reject with the error of an account. */
export const onFailure = (_account: string, error: unknown) => {
  throw error;
};

export interface ComparisonOptions {
  readonly scenario: string;
  readonly length: number;
  /** Interval between rounds and between evaluations (ms). */
  readonly every: number;
  readonly destinations?: readonly Destination[];
  readonly config: object;
}

type Labels = Readonly<Record<string, string>>;

const changeText = (at: number, state: string, labels: Labels) =>
  `${new Date(at).toISOString()} ${state} ${JSON.stringify(Object.entries(labels).sort())}`;

/** Returns a function that returns how an agent's alerts have changed since its last call. */
function watchAlerts({ alerting }: Supervisor) {
  const firing = new Set<string>();
  return (at: number): string[] =>
    alerting.alerts('a').flatMap(({ state, labels }) => {
      const key = JSON.stringify(labels);
      if (state === 'firing' ? firing.has(key) : state !== 'resolved' || !firing.delete(key)) return [];
      if (state === 'firing') firing.add(key);
      return [changeText(at, state, labels)];
    });
}

/** Returns the alert changes of an agent that runs for `length` (ms) and of a backtest of the same period. */
export async function compare({ scenario, length, every, destinations, config }: ComparisonOptions): Promise<{
  readonly live: readonly string[];
  readonly past: readonly string[];
  readonly result: AccountResult | undefined;
}> {
  return withClosing(async closing => {
    const clock = createDrivenClock();
    const start = clock.now();
    const kept = { logRetention: length + HOUR, mostEvents: 10_000_000 };
    const emulator = await startEmulator({ scenario, clock, ...kept, ...(destinations && { destinations }) });
    closing.add('emulator', () => emulator.close());
    const { url: baseUrl, token } = emulator;
    const budget = { requestsPerSecond: 10_000, burst: 10_000, requestsPerDay: 100_000_000 };
    const loaded = loadedFrom({
      log: { level: 'error' },
      store: { kind: 'memory' },
      accounts: [{ name: 'a', baseUrl, token, budget, retention: { events: '30d' } }],
      collect: {
        dlq: { enabled: false },
        flowControl: { enabled: false },
        events: { every: `${every}ms`, overlap: `${OVERLAP}ms` },
      },
      ...config,
    });
    const base = await openBase(loaded, { env: {}, clock, random: () => 0.5 }, closing);
    const agent = await Supervisor.open(loaded, base);
    closing.add('accounts', () => agent.close());
    const [running] = agent.state().running;
    if (!running) throw new Error('the account is not open');
    const { signal } = new AbortController();
    const changesOf = watchAlerts(agent);
    const live: string[] = [];
    for (let time = 0; time <= length - OVERLAP; time += every) {
      clock.reach(time);
      for (const round of running.account.rounds) if (time % round.every === 0) await round.run(signal);
      if (time % MINUTE === 0) await running.sample();
      for (const evaluate of agent.alerting.evaluations) await evaluate(signal);
      live.push(...changesOf(clock.now()));
    }
    clock.reach(length);
    const changes: AlertChange[] = [];
    const onChange = (change: AlertChange) => void changes.push(change);
    const deps = { env: {}, clock, random: () => 0.5, signal, onChange, onFailure, onProgress: () => undefined };
    const [result] = await backtest(loaded, start, deps);
    const past = changes.map(({ at, state, account, rule, labels }) =>
      changeText(at, state, { alertname: rule, account, ...labels }),
    );
    return { live, past, result };
  });
}
