import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../../src/config/load.ts';
import { createRandom } from '../../src/emulator/random.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { type Callback, createMonth, type Incident } from '../support/callback-month.ts';
import { createCallbackService } from '../support/callback-service.ts';
import { runs } from '../support/runs.ts';
import { createGuillotine, type SimulatedAgent, startSimulatedAgent } from '../support/simulated-agent.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const START = Date.UTC(2026, 2, 1);
const FREEZE = { from: START + 13 * DAY, to: START + 14 * DAY };

const EAGER = 'inProgressFor: 7h, pastRetryWindow: 1, assumeMaxRetries: 4, assumeTimeout: 1s';
/** Wide breaker limits, because all stuck callbacks become due at once after an event that resets all episodes. */
const WIDE = 'max: 100, percent: 80, minPopulation: 10';
/** Thresholds of the example configuration. */
const CAREFUL =
  'inProgressFor: 48h, snapshots: 8, pastRetryWindow: 1.5, assumeMaxRetries: 5, assumeTimeout: 15m, idleFor: 1h';

/** In-memory folder, used if available: this test does not need durable files. */
const MEMORY = '/dev/shm';
const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});
function newFolder(): string {
  const folder = mkdtempSync(join(existsSync(MEMORY) ? MEMORY : tmpdir(), 'month-'));
  folders.push(folder);
  return folder;
}

function configOf(folder: string, stuckWhen: string, maxGap: number, candidates: string) {
  const text = `
accounts: [{ name: production, baseUrl: 'http://127.0.0.1:9', token: month, retention: { dlq: 14d } }]
store: { path: '${join(folder, 'store.db')}' }
autoCancel:
  mode: enforce
  stopFile: '${join(folder, 'STOP')}'
  limits: { perRun: 10, perHour: 60, perDay: 200, spacing: 2s }
  breaker: { candidates: { ${candidates} }, errors: { max: 3, within: 15m } }
  rules:
    - name: jobs
      mode: enforce
      expires: 2026-06-30
      match: { workflowUrl: { prefix: ['https://api.example.com/jobs/'] } }
      except: { label: { in: [do-not-cancel] } }
      stuckWhen: { maxGap: ${maxGap}m, ${stuckWhen} }
      grace: 30m
      limits: { perRun: 10, perHour: 60 }
      windows: { deny: [{ from: '${new Date(FREEZE.from).toISOString()}', to: '${new Date(FREEZE.to).toISOString()}', reason: freeze }] }
    - name: everything-else
      match: { url: { prefix: ['https://api.example.com/payout'] } }
      stuckWhen: { maxGap: ${maxGap}m, ${stuckWhen} }
`;
  return parseConfig(text, 'month.yaml', {}).config;
}

interface Step {
  readonly at: number;
  readonly by: number;
}

/**
 * Generates random incidents, clock steps and kills. Events that reset episodes are days apart, so that the agent can act in
 * between.
 */
function drawTroubles(seed: number, days: number) {
  const random = createRandom(seed + 1);
  const incidents: Incident[] = [];
  const steps: Step[] = [];
  const kinds = ['down', 'down', 'errors', 'partial', 'empty', 'short'] as const;
  for (let day = 2; day < days - 5; day += random.between(3, 4)) {
    let at = START + day * DAY + random.between(0, 12 * HOUR);
    for (let count = random.between(1, 3); count > 0; count -= 1) {
      const to = at + random.pick([2 * MINUTE, 20 * MINUTE, 2 * HOUR, 9 * HOUR, DAY]);
      incidents.push({ from: at, to, kind: random.pick(kinds) });
      at = to + random.between(MINUTE, HOUR);
    }
    // Clock steps of hours, forward and back, never during an incident.
    if (random.chance(0.7)) steps.push({ at: at + HOUR, by: random.pick([-6, -2, -1, 1, 5, 30]) * HOUR });
  }
  // Incidents that are too short to reset episodes.
  for (let at = START + DAY; at < START + days * DAY; at += random.between(4 * HOUR, 30 * HOUR)) {
    if (incidents.some(({ from, to }) => at > from - HOUR && at < to + HOUR)) continue;
    incidents.push({
      from: at,
      to: at + random.between(SECOND, 3 * MINUTE),
      kind: random.pick(['down', 'down', 'down', 'errors']),
    });
  }
  const kills = Array.from({ length: days * 2 }, () => START + random.between(0, days * DAY)).sort((a, b) => a - b);
  return { incidents: incidents.sort((a, b) => a.from - b.from), steps, kills };
}

/**
 * Returns periods in which no episode is reset. The agent must find callbacks that are stuck throughout such a period.
 */
function quietTimes(incidents: readonly Incident[], steps: readonly Step[], end: number) {
  const breaks = [
    ...incidents.filter(({ from, to, kind }) => to - from > 4 * MINUTE || kind === 'empty' || kind === 'short'),
    ...steps.map(({ at }) => ({ from: at, to: at })),
  ].sort((a, b) => a.from - b.from);
  const quiet: { from: number; to: number }[] = [];
  let from = START;
  for (const each of [...breaks, { from: end, to: end }]) {
    if (each.from > from) quiet.push({ from, to: each.from });
    from = Math.max(from, each.to);
  }
  return quiet;
}

/** Maximum time from the first sighting of a stuck callback to its cancel (ms). */
const ENOUGH = 56 * HOUR;

interface Simulation {
  readonly days: number;
  readonly count: number;
  readonly stuckWhen: string;
  readonly maxGap: number;
  readonly candidates: string;
}

async function simulate(seed: number, { days, count, stuckWhen, maxGap, candidates }: Simulation) {
  const end = START + days * DAY;
  const { incidents, steps, kills } = drawTroubles(seed, days);
  const callbacks = createMonth({ seed, callbacks: count, start: START, end, incidents, maxGap });
  const random = createRandom(seed + 2);
  const config = configOf(newFolder(), stuckWhen, maxGap / MINUTE, candidates);
  let [time, offset, restarts, resets] = [START, 0, 0, 0];
  const incident = () => incidents.find(({ from, to }) => from <= time && time < to);
  let guillotine = createGuillotine();
  const service = createCallbackService({
    callbacks,
    seed,
    now: () => time,
    pass(ms, work) {
      time += ms;
      return guillotine.pass(async () => work());
    },
    incident: () => incident()?.kind,
  });

  async function start(): Promise<SimulatedAgent> {
    guillotine = createGuillotine();
    const bornAt = time;
    const own = guillotine;
    const clock: Clock = {
      now: () => time + offset,
      monotonic: () => time - bornAt,
      sleep: ms =>
        own.pass(async () => {
          time += ms;
        }),
    };
    return startSimulatedAgent({ config, clock, guillotine, reader: service.reader, writer: service.writer });
  }

  let agent = await start();
  let openSince: number | undefined;
  while (time < end) {
    const begun = time;
    const now = incident();
    const isDown = now?.kind === 'down';
    if (steps[0] && steps[0].at <= time) offset += (steps.shift() as Step).by;
    if (kills[0] !== undefined && kills[0] <= time) {
      kills.shift();
      guillotine.arm(random.between(1, 15), random.chance(0.5));
    }
    if (!isDown) {
      await agent.walk();
      const sent = service.heard.length;
      await agent.act();
      // Cancels by this process or an earlier one are read back after some seconds.
      const isBusy = service.heard.length > sent || restarts % 2 === 1;
      for (const ms of isBusy ? [6, 10, 46] : []) {
        time += ms * SECOND;
        await agent.act();
      }
      // The operator resets a breaker two hours after it has opened.
      openSince = agent.isOpen('errors') ? (openSince ?? time) : undefined;
      if (openSince !== undefined && time > openSince + 2 * HOUR && !guillotine.isDead) {
        await agent.tell({
          kind: 'reset-breaker',
          breaker: 'errors',
          by: 'test',
          reason: 'the service answered with errors',
        });
        resets += 1;
      }
    }
    if (isDown || guillotine.isDead) {
      await agent.end();
      time = isDown ? now.to : time + random.between(SECOND, 2 * MINUTE);
      agent = await start();
      restarts += 1;
    }
    time = Math.max(time, begun + (maxGap / 2) * (1 - 0.1 * random.fraction()));
  }
  const opened = (['candidates', 'lost_races'] as const).filter(breaker => agent.isOpen(breaker));
  const journal = await agent.autoCancel.journal(0);
  await agent.end();

  const quiet = quietTimes(incidents, drawTroubles(seed, days).steps, end);
  const mustBeCancelled = ({ isStuck, isMeant, runs, leavesAt }: Callback) => {
    const since = runs.at(-1)?.from ?? 0;
    // Cancels that become due during the freeze are sent after it.
    return (
      isStuck &&
      isMeant &&
      quiet.some(({ from, to }) => {
        const result = Math.max(from, since) + ENOUGH;
        const done = result > FREEZE.from && result < FREEZE.to + HOUR ? FREEZE.to + HOUR : result;
        return done < Math.min(to, leavesAt);
      })
    );
  };
  const due = callbacks.filter(mustBeCancelled);
  const healthy = callbacks.filter(({ isStuck }) => !isStuck);
  const wrongly = service.heard.filter(
    ({ state, callback }) => state === 'healthy' || state === 'ended' || !callback.isMeant,
  );
  return {
    callbacks,
    due,
    missed: due.filter(callback => !service.isCancelled(callback)).map(({ dlqId }) => dlqId),
    wrongly: wrongly.map(({ at, state, callback }) => `${callback.dlqId} at ${new Date(at).toISOString()}: ${state}`),
    opened,
    intents: journal.filter(({ step }) => step === 'intent').length,
    result: {
      seed,
      callbacks: callbacks.length,
      stuck: callbacks.filter(({ isStuck }) => isStuck).length,
      'stuck, meant and long enough': due.length,
      cancelled: callbacks.filter(service.isCancelled).length,
      healthy: healthy.length,
      'healthy cancelled': healthy.filter(service.isCancelled).length,
      'run again by hand': callbacks.reduce((sum, { runs }) => sum + runs.length - 1, 0),
      DELETEs: service.heard.length,
      restarts,
      outages: incidents.filter(({ kind }) => kind !== 'down').length,
      'clock steps': drawTroubles(seed, days).steps.length,
      'breaker resets': resets,
    },
  };
}

const MONTHS = [
  [1, 10],
  [2, 30],
  [3, 30],
] as const;

it.each(MONTHS.slice(0, runs(MONTHS.length)))(
  'auto-cancel cancels every long-stuck callback and no healthy one in a month (seed %i, maxGap %im)',
  async (seed, minutes) => {
    const { result, missed, wrongly, opened, intents } = await simulate(seed, {
      days: 30,
      count: 2500,
      stuckWhen: CAREFUL,
      maxGap: minutes * MINUTE,
      candidates: WIDE,
    });
    process.stdout.write(`${JSON.stringify(result)}\n`);
    expect(wrongly, `seed ${seed}`).toEqual([]);
    expect(missed, `seed ${seed}`).toEqual([]);
    expect(result['healthy cancelled']).toBe(0);
    expect(opened).toEqual([]);
    // Check that the simulation exercised the rules.
    expect(result['stuck, meant and long enough']).toBeGreaterThan(20);
    expect(result.restarts).toBeGreaterThan(20);
    // There is at most one DELETE per intent.
    expect(result.DELETEs).toBeLessThanOrEqual(intents);
  },
);

describe('overeager rules', () => {
  const eager = { days: 5, count: 420, stuckWhen: EAGER, maxGap: 30 * MINUTE };

  it('an overeager rule cancels healthy callbacks within five days if the candidate breaker stays closed', async () => {
    const { result, wrongly } = await simulate(1, { ...eager, candidates: 'max: 1000, percent: 100' });
    expect(result['healthy cancelled']).toBeGreaterThan(10);
    expect(wrongly.length).toBeGreaterThan(10);
  });

  it('an overeager rule is stopped by the candidate breaker', async () => {
    const { result, opened } = await simulate(1, { ...eager, candidates: 'max: 25, percent: 30' });
    expect(opened).toEqual(['candidates']);
    expect(result['healthy cancelled']).toBeLessThan(5);
  });
});
