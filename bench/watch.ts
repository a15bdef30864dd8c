import { setImmediate } from 'node:timers/promises';
import { openAccounts } from '../src/agent/base.ts';
import { Config } from '../src/config/schema.ts';
import { startEmulator } from '../src/emulator/server.ts';
import { withClosing } from '../src/kit/closing.ts';
import { MEAN_INTERVAL } from '../src/scheduler/loop.ts';
import { table } from './measure.ts';

const MINUTE = 60_000;
/** Measured periods (minutes since the start): before and after the agent has measured the delays of events. */
const SPANS = [
  [30, 60],
  [150, 180],
] as const;
/** Share of delayed events and their maximum delay (ms). */
const LATENESS = { none: [0, 0], '1 in 10, up to 5 s': [0.1, 5000], '1 in 10, up to 50 s': [0.1, 50_000] } as const;

/** Returns how many requests and bytes reading the log takes per day, for each period. */
async function days(logLateShare: number, logLateMs: number) {
  return withClosing(async closing => {
    let time = 0;
    const clock = {
      now: () => Math.floor(Date.UTC(2026, 0, 1) + time),
      monotonic: () => time,
      async sleep(ms: number, signal?: AbortSignal) {
        const until = time + ms;
        await setImmediate();
        signal?.throwIfAborted();
        time = Math.max(time, until);
      },
    };
    const emulator = await startEmulator({ scenario: 'steady', clock, dialect: { logLateShare, logLateMs } });
    closing.add('emulator', () => emulator.close());
    const account = { name: 'a', baseUrl: emulator.url, token: emulator.token };
    const config = Config.parse({ log: { level: 'error' }, store: { kind: 'memory' }, accounts: [account] });
    const loaded = { file: 'bench', config, hash: 'bench', warnings: [] };
    const accounts = await openAccounts(loaded, { env: {}, clock, random: () => 0.5 }, closing);
    const [watched] = accounts;
    const rounds = watched?.rounds.filter(({ collector }) => collector === 'events') ?? [];
    const counted = () =>
      (watched?.sources ?? [])
        .flatMap(({ samples }) => samples().get('delivery_events_total') ?? [])
        .reduce((sum, { value }) => sum + value, 0);
    const due = new Map(rounds.map(round => [round, 0]));
    const readUntil = async (minute: number) => {
      for (;;) {
        const [next, at] = [...due].reduce((first, other) => (other[1] < first[1] ? other : first));
        if (at > minute * MINUTE) return { ...watched?.spent(), events: counted() };
        time = Math.max(time, at);
        await next.run(new AbortController().signal);
        due.set(next, at + next.every * MEAN_INTERVAL);
      }
    };
    const taken: { requests: number; bytes: number; events: number }[] = [];
    for (const [from, to] of SPANS) {
      const [before, after] = [await readUntil(from), await readUntil(to)];
      const aDay = (of: 'requests' | 'bytes' | 'events') =>
        (((after[of] ?? 0) - (before[of] ?? 0)) * 1440) / (to - from);
      taken.push({ requests: aDay('requests'), bytes: aDay('bytes'), events: aDay('events') });
    }
    return taken;
  });
}

/** Measures the cost of reading a busy log. A simulated clock makes three hours pass in seconds. */
export async function run(): Promise<string> {
  const rows: string[][] = [];
  for (const [late, [share, most]] of Object.entries(LATENESS)) {
    const taken = await days(share, most);
    const [first, last] = [taken.at(0), taken.at(-1)];
    if (!first || !last) throw new Error('nothing was measured');
    const costs = ({ requests, bytes }: typeof first) => [
      Math.round(requests).toLocaleString('en'),
      (bytes / 1e6).toFixed(0),
    ];
    const ratio = `${((last.bytes / first.bytes) * 100).toFixed(0)} %`;
    rows.push([late, (last.events / 86_400).toFixed(1), ...costs(first), ...costs(last), ratio]);
  }
  return [
    'The event log of the emulator’s usual workload, `tail` and `sweep`, with a simulated clock. In its first hour the agent reads back by the complete `overlap` each time; by the third hour it has measured the delay of events.',
    table(
      ['late events', 'events/s', 'calls/day, 1st h', 'MB/day, 1st h', 'calls/day, 3rd h', 'MB/day, 3rd h', 'share'],
      rows,
    ),
  ].join('\n\n');
}
