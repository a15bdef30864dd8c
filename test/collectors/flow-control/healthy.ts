/** Simulates hours of healthy flow-control keys with faults in the service, its log and the agent. */
import type { Dialect } from '../../../src/emulator/dialect.ts';
import { createRandom, type Random } from '../../../src/emulator/random.ts';
import { type AuditedService, createAuditedService, keyed } from '../../support/audited-service.ts';

const MINUTE = 60_000;
const KEYS = 25;

/**
 * Creates a random key: attempts that take seconds, minutes or half an hour; limits of parallelism, rate or both; bursts and
 * overload.
 */
function randomKey(random: Random, index: number) {
  const parallelism = random.chance(0.8) ? random.between(1, 12) : undefined;
  const rate = random.chance(0.35) ? { rate: random.between(2, 20), period: random.pick([10, 60]) } : {};
  const takesMs = random.pick([20_000, 45_000, 120_000, 400_000, 1_800_000]);
  const most = Math.max(takesMs / (parallelism ?? 6), rate.rate ? (rate.period * 1000) / rate.rate : 0);
  const everyMs = Math.max(3000, most * random.pick([0.9, 1.05, 1.3, 2]));
  const isBurst = random.chance(0.4);
  const limits = { ...(parallelism && { parallelism }), ...rate, maxRetries: random.between(0, 3) };
  const burst = isBurst ? { burst: [3, 15] as const } : {};
  return keyed(`key-${index}`, limits, {
    everyMs: everyMs * (isBurst ? 9 : 1),
    takesMs,
    flaky: random.pick([0, 0.05, 0.3]),
    ...burst,
  });
}

export interface Healthy {
  readonly keyHours: number;
  /** Reads that wrongly reported ghost slots. */
  readonly wrong: readonly string[];
  /** Number of reads by state. */
  readonly states: Map<string, number>;
}

/** Injects a fault into the service, its log or the agent. */
async function disturb(service: AuditedService, random: Random): Promise<void> {
  const { state } = service;
  const key = `key-${random.between(0, KEYS - 1)}`;
  const what = random.between(0, 9);
  if (what === 0) await service.restart(random.pick([0, 30_000, 4 * MINUTE, 20 * MINUTE]));
  else if (what === 1) service.failUntil(service.now() + random.between(1, 12) * MINUTE);
  else if (what === 2) state.flow.change(key, { paused: random.chance(0.5) });
  else if (what === 3) state.flow.change(key, { pinned: { parallelism: random.between(1, 12) } });
  else if (what === 4) state.flow.change(key, { pinned: { rate: random.between(2, 30), period: 60 } });
  else if (what === 5) state.dialect.logLagMs = random.pick([0, 5000, 30_000, 120_000, 480_000]);
  else if (what === 6)
    Object.assign(state.dialect, { logLateShare: random.pick([0, 0.2, 1]), logLateMs: random.between(0, 55_000) });
  else if (what === 7) return void (await loseEvents(service, random.between(2, 15) * MINUTE));
}

/** Makes the service deliver without logging events for a period. */
async function loseEvents(service: AuditedService, ms: number): Promise<void> {
  service.state.logView.stop(service.now() + 1);
  await service.advance(ms);
  service.state.logView.resume(service.now() + 1);
}

/** Simulates healthy keys. `retrySlot`: how the service treats the slot of a message that waits for a retry. */
export async function healthyHours(
  seed: number,
  hours: number,
  retrySlot: Dialect['retrySlot'] = 'released',
): Promise<Healthy> {
  const random = createRandom(seed);
  const destinations = Array.from({ length: KEYS }, (_, index) => randomKey(random, index));
  const service = createAuditedService({ seed, destinations, scenario: 'neglected', dialect: { retrySlot } });
  const states = new Map<string, number>();
  const wrong: string[] = [];
  const ticks = hours * 240;
  for (let tick = 0; tick < ticks; tick += 1) {
    await service.advance(15_000);
    if (random.chance(0.02)) await disturb(service, random);
    for (const [key, { state, reason, ghosts = 0 }] of service.facts()?.audited ?? []) {
      const name = `${state}/${reason}`;
      states.set(name, (states.get(name) ?? 0) + 1);
      if (state === 'ghost_slots' || ghosts > 0) wrong.push(`seed ${seed} tick ${tick} ${key} ${ghosts}`);
    }
  }
  return { keyHours: hours * KEYS, wrong, states };
}
