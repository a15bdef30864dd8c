import { createRandom } from '../../../src/emulator/random.ts';
import { createAuditedService, keyed } from '../../support/audited-service.ts';

const MINUTE = 60_000;

/**
 * Simulates a waitlist that grows while its key is paused and then drains. Returns the predicted times to drain, divided
 * by the actual ones.
 */
export async function drainCourse(seed: number): Promise<number[]> {
  const random = createRandom(seed);
  const parallelism = random.between(1, 10);
  const takesMs = random.pick([500, 2000, 8000]);
  const everyMs = takesMs / parallelism / random.pick([0.1, 0.3, 0.6]);
  const destinations = [keyed('draining', { parallelism }, { everyMs, takesMs })];
  const service = createAuditedService({ seed, scenario: 'neglected', destinations });
  await service.advance(5 * MINUTE);
  service.state.flow.change('draining', { paused: true });
  await service.advance(random.between(5, 20) * MINUTE);
  service.state.flow.change('draining', { paused: false });
  const predictions: { readonly at: number; readonly drainsIn: number }[] = [];
  const waiting = () => service.state.keys().get('draining')?.waiting ?? 0;
  for (let left = 1000; left > 0 && waiting() > 0; left -= 1) {
    await service.advance(5000);
    const { state, drainsIn } = service.audited('draining') ?? {};
    if (state === 'draining' && drainsIn !== undefined) predictions.push({ at: service.now(), drainsIn });
  }
  // Omit predictions of the last minute: the read interval causes most of their error.
  const end = service.now();
  return predictions.filter(({ at }) => end - at >= MINUTE).map(({ at, drainsIn }) => drainsIn / (end - at));
}
