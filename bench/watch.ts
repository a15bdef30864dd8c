import { setImmediate } from 'node:timers/promises';
import { openAccounts } from '../src/agent/base.ts';
import { Config } from '../src/config/schema.ts';
import { startEmulator } from '../src/emulator/server.ts';
import { withClosing } from '../src/kit/closing.ts';
import { MEAN_INTERVAL } from '../src/scheduler/loop.ts';
import { table } from './measure.ts';

const MINUTE = 60_000;
/** Measured period (minutes since the start). */
const [FROM, TO] = [30, 60];
/** Share of delayed events and their maximum delay (ms). */
const LATENESS = { none: [0, 0], '1 in 10, up to 5 s': [0.1, 5000], '1 in 10, up to 50 s': [0.1, 50_000] } as const;

/** Returns how many requests and bytes reading the log takes per day, and the number of events. */
async function aDay(logLateShare: number, logLateMs: number) {
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
    const [before, after] = [await readUntil(FROM), await readUntil(TO)];
    const perDay = (of: 'requests' | 'bytes' | 'events') =>
      (((after[of] ?? 0) - (before[of] ?? 0)) * 1440) / (TO - FROM);
    return { requests: perDay('requests'), bytes: perDay('bytes'), events: perDay('events') };
  });
}

/** Measures the cost of reading a busy log. A simulated clock makes an hour pass in seconds. */
export async function run(): Promise<string> {
  const rows: string[][] = [];
  for (const [late, [share, most]] of Object.entries(LATENESS)) {
    const { requests, bytes, events } = await aDay(share, most);
    rows.push([
      late,
      (events / 86_400).toFixed(1),
      Math.round(requests).toLocaleString('en'),
      (bytes / 1e6).toFixed(0),
    ]);
  }
  return [
    'The event log of the emulator’s usual workload, with a simulated clock.',
    table(['late events', 'events/s', 'calls/day', 'MB/day'], rows),
  ].join('\n\n');
}
