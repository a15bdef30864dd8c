/** Simulates leaked slots for `states.e2e.test.ts` and `flow-audit.long.test.ts`. */
import type { Dialect } from '../../../src/emulator/dialect.ts';
import { createRandom } from '../../../src/emulator/random.ts';
import { type AuditedService, createAuditedService, keyed } from '../../support/audited-service.ts';

const MINUTE = 60_000;

/** How attempts fail and are retried in a simulation. */
export interface Failing {
  /** How the service treats the slot of a message that waits for a retry. */
  readonly retrySlot: Dialect['retrySlot'];
  /** Fraction of failing attempts. */
  readonly flaky: number;
  readonly maxRetries: number;
}

/**
 * Simulates a key that leaks slots some minutes after the start, and two healthy keys. `waits`: how long (ms) messages had been
 * waiting without interruption when the leak was detected; undefined if it was not detected.
 */
export async function leakCourse(
  seed: number,
  { retrySlot = 'released', flaky = 0, maxRetries = 1 }: Partial<Failing> = {},
): Promise<{ waits: number | undefined; wrong: number; leaked: number; named: number }> {
  const random = createRandom(seed);
  const parallelism = random.between(2, 12);
  const leaked = random.chance(0.2) ? parallelism : random.between(1, parallelism - 1);
  const takesMs = random.pick([400, 1500, 6000, 20_000, 60_000]);
  // The load is below the key's capacity before the leak and exceeds it afterwards.
  const load = ((parallelism - leaked / 3) / parallelism) * 0.95;
  const everyMs = takesMs / (parallelism * load);
  const isBurst = random.chance(0.3);
  const burst = isBurst ? ([4, 12] as const) : undefined;
  const service = createAuditedService({
    seed,
    scenario: 'neglected',
    destinations: [
      keyed(
        'leaking',
        { parallelism, maxRetries },
        { everyMs: everyMs * (isBurst ? 8 : 1), takesMs, flaky, ...(burst && { burst }) },
      ),
      keyed('healthy', { parallelism: 2, maxRetries }, { everyMs: 7000, takesMs: 6000, flaky }),
      keyed('paced', { rate: 10, period: 60, maxRetries }, { everyMs: 7000, takesMs: 4000, flaky }),
    ],
    dialect: {
      retrySlot,
      logLagMs: random.pick([0, 2000, 15_000, 40_000]),
      logLateShare: random.pick([0, 0.1, 0.5]),
      logLateMs: random.between(500, 40_000),
    },
  });
  await service.advance(random.between(30, 80) * 15_000);
  service.state.flow.change('leaking', { leaksLeft: leaked });
  return watchLeak(service, leaked);
}

async function watchLeak(service: AuditedService, leaked: number) {
  const ghosts = () => service.state.keys().get('leaking')?.ghosts ?? 0;
  const truth = () => service.state.keys().get('leaking');
  let wrong = 0;
  let since: number | undefined;
  for (let step = 0; step < 200; step += 1) {
    await service.advance(15_000);
    for (const other of ['healthy', 'paced']) if (service.audited(other)?.state === 'ghost_slots') wrong += 1;
    // Ghost slots are harmless and not reported while no messages are waiting.
    const waits = ghosts() > 0 && (truth()?.waiting ?? 0) > 0;
    since = waits ? (since ?? service.now()) : undefined;
    const shown = service.audited('leaking');
    if (shown?.state === 'ghost_slots' && (shown.ghosts ?? 0) > ghosts()) wrong += 1;
    if (ghosts() > 0 && shown?.state === 'ghost_slots')
      return { waits: service.now() - (since ?? service.now()), wrong, leaked, named: shown.ghosts ?? 0 };
    if (since !== undefined && service.now() - since > 20 * MINUTE) break;
  }
  return { waits: undefined, wrong, leaked, named: 0 };
}
