import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { parseConfig } from '../../src/config/load.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { acceleratedClock, type Clock, systemClock } from '../../src/kit/clock.ts';
import { createClosing } from '../../src/kit/closing.ts';
import { createChance } from '../support/chance.ts';
import { eventually } from '../support/eventually.ts';

const HOUR = 3_600_000;
const SPEED = 3600;
/**
 * Speed of the clock relative to `SPEED` once actions are due. A final check is valid for only two minutes of agent time,
 * which is too short for a busy machine at full speed.
 */
const SLOWDOWN = 1 / 4;

let closing = createClosing();
afterEach(async () => {
  await closing.close();
  closing = createClosing();
});

/**
 * Returns the shipped example with all rules in enforce mode, without rate limits and without conditions that the
 * emulated log cannot meet.
 */
function enforced(url: string, folder: string): string {
  const replace = (text: string, from: RegExp, to: string) => {
    if (!from.test(text)) throw new Error(`the example has no ${from}`);
    return text.replace(from, to);
  };
  let text = readFileSync('examples/auto-cancel.yaml', 'utf8');
  text = replace(text, /https:\/\/delivery\.example\.com/, url);
  text = replace(
    text,
    /\n {2}mode: plan[^\n]*/,
    '\n  mode: enforce\n  breaker: { candidates: { max: 1000, percent: 100 } }\n  limits: { perRun: 100, perHour: 1000, perDay: 10000, spacing: 0s }',
  );
  text = replace(text, /\n {6}mode: plan/, '\n      mode: enforce');
  text = replace(text, /expires: [\d-]+/, "expires: '9999-12-31'");
  text = replace(text, /, idleFor: 1h/, '');
  text = replace(text, /maxGap: 30m/, 'maxGap: 12h');
  text = replace(
    text,
    /limits: \{ perRun: 2, perHour: 6 \}\n/,
    'limits: { perRun: 100, perHour: 1000 }\n      cooldown: { perUrl: 0s }\n',
  );
  text = replace(text, /\n {6}windows:\n[^\n]*/, '');
  text = replace(text, /listen: 127\.0\.0\.1:10922/, "listen: '127.0.0.1:0'");
  return `${text}
store: { path: ${join(folder, 'store.db')} }
log: { level: silent }
collect:
  flowControl: { enabled: false }
  dlq: { every: 10m, rescanEvery: 20m }
  events: { every: 30m, window: 1h }
staleness: { withdrawAtMost: 12h }
`;
}

describe('auto-cancel with the shipped example, enforced, in accelerated time', () => {
  it('the shipped example in enforce mode cancels exactly the hanging callbacks', async () => {
    // Both services generate the same random events: callbacks that hang in `untouched` would hang in `emulator` without
    // the agent.
    let clock: Clock = { ...systemClock, now: () => origin };
    const origin = systemClock.now();
    const shared: Clock = {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      sleep: (ms, signal) => clock.sleep(ms, signal),
    };
    const options = { scenario: 'stuck-callback', seed: 7, clock: shared, history: 0, maxEvents: 1000 };
    const emulator = await startEmulator(options);
    const untouched = await startEmulator(options);
    closing.add('emulators', () => Promise.all([emulator.close(), untouched.close()]));
    const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-'));
    closing.add('folder', () => rmSync(folder, { recursive: true, force: true }));
    const fast = acceleratedClock(systemClock, SPEED);
    const run = (pace: Clock) => {
      const [from, begun] = [clock.now(), pace.monotonic()];
      clock = { ...pace, now: () => from + Math.floor(pace.monotonic() - begun) };
    };
    run(fast);
    const env = { DELIVERY_TOKEN: emulator.credentials.readOnlyToken, DELIVERY_ACTION_TOKEN: emulator.token };
    const loaded = parseConfig(enforced(emulator.url, folder), join(folder, 'config.yaml'), env);
    const agent = await startAgent(loaded, { env, clock: shared, random: createChance().fraction });
    closing.add('agent', () => agent.close());

    // Slow down just before the first callbacks have been in progress for 48 hours. The timeouts allow for a busy machine.
    await eventually(() => expect(shared.now() - origin).toBeGreaterThan(47 * HOUR), 300_000);
    run(acceleratedClock(fast, SLOWDOWN));
    await eventually(() => expect(shared.now() - origin).toBeGreaterThan(68 * HOUR), 300_000);
    const end = shared.now();
    const cancelled = emulator.state.cancelCalls.filter(({ verdict }) => verdict === 'done');
    untouched.state.current();
    const hanging = untouched.state
      .dlqRows()
      .filter(({ failureCallbackInfo }) => failureCallbackInfo?.state === 'CALLBACK_INPROGRESS');
    const isMatched = ({ workflowUrl = '', responseStatus }: (typeof hanging)[number]) =>
      /^https:\/\/(app|reports)\.example\.com\/(api\/)?workflows\/[^/]+$/.test(workflowUrl) && responseStatus >= 500;
    const stuck = hanging.filter(isMatched);
    const overdue = stuck.filter(({ dlqId }) => Number(dlqId.split('-')[0]) < end - 60 * HOUR);
    const ids = new Set(cancelled.map(({ dlqId }) => dlqId));
    const missed = overdue.filter(({ dlqId }) => !ids.has(dlqId)).map(({ dlqId }) => dlqId);
    const wrong = [...ids].filter(id => !stuck.some(({ dlqId }) => dlqId === id));
    process.stdout.write(
      `auto-cancel in 68 accelerated hours: ${overdue.length} overdue, ${ids.size} cancelled, ${missed.length} missed, ${wrong.length} not stuck\n`,
    );
    expect(overdue.length).toBeGreaterThan(2);
    expect(missed).toEqual([]);
    expect(wrong).toEqual([]);
    expect(cancelled.length).toBe(ids.size);
  });
});
