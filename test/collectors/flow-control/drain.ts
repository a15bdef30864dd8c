import type { TrackedKey } from '../../../src/collectors/flow-control/families.ts';
import { createFlowControl, flowControl } from '../../../src/collectors/flow-control/flow-control.ts';
import { createEmulatedClock } from '../../../src/emulator/clock.ts';
import type { Destination } from '../../../src/emulator/destinations.ts';
import { dialectWith } from '../../../src/emulator/dialect.ts';
import { createRandom } from '../../../src/emulator/random.ts';
import { keyRow } from '../../../src/emulator/routes/endpoints.ts';
import { EmulatorState } from '../../../src/emulator/state.ts';
import type { FlowControlEntry } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import { toFlowControlEntry } from '../../../src/upstream/wire.ts';

const START = Date.UTC(2026, 4, 4, 12);
const MINUTE = 60_000;
const READ_EVERY = 15_000;
const SIGNAL = new AbortController().signal;

/** Emulates a key with a simulated clock, and reads it every 15 s. */
function createKeyService(seed: number, parallelism: number, everyMs: number, takesMs: number) {
  const clock = createEmulatedClock({ now: () => START, monotonic: () => 0, sleep: async () => undefined }, 0);
  const dialect = dialectWith({ flowControlFields: 'all', flowControlZeros: 'omitted' });
  const fields = { url: 'https://example.com/key', method: 'POST', header: {}, maxRetries: 1, topicId: '' };
  const destination: Destination = {
    fields: { ...fields, flowControlKey: 'key', parallelism },
    ...{ everyMs, takesMs, flaky: 0, doomed: 0, statuses: [500] },
  };
  const destinations = [destination];
  const state = new EmulatorState({
    ...{ clock, seed, scenario: 'neglected', history: 0, dlqEntries: 0, maxEvents: 1_000_000, destinations, dialect },
  });
  const reader = {
    async flowControl(_signal: AbortSignal, add: (entry: FlowControlEntry) => void) {
      for (const [name, key] of state.keys()) {
        const entry = toFlowControlEntry(keyRow(state, name, key, 'waitListSize'), clock.now());
        if (entry) add(entry);
      }
      return 0;
    },
    // Other methods are unused here.
  } as unknown as Reader;
  const collector = createFlowControl(flowControl.options.parse({}));
  let memory = collector.restore(new Map());
  let shown: readonly TrackedKey[] = [];
  return {
    now: clock.now,
    waiting: () => state.keys().get('key')?.waiting ?? 0,
    pause: (paused: boolean) => state.flow.change('key', { paused }),
    drainsIn: () => shown[0]?.drainsIn,
    async advance(ms: number): Promise<void> {
      for (const end = clock.now() + ms; clock.now() < end; ) {
        clock.advance(READ_EVERY);
        const context = { api: reader, round: 'list', now: clock.now(), memory, walk: undefined, signal: SIGNAL };
        const folded = (await collector.observe(context)).fold(memory);
        memory = folded.memory;
        shown = folded.facts?.shown ?? [];
      }
    },
  };
}

/**
 * Simulates a waitlist that grows while its key is paused and then drains. Returns the predicted times to drain, divided
 * by the actual ones.
 */
export async function drainCourse(seed: number): Promise<number[]> {
  const random = createRandom(seed);
  const parallelism = random.between(1, 10);
  const takesMs = random.pick([500, 2000, 8000]);
  const everyMs = takesMs / parallelism / random.pick([0.1, 0.3, 0.6]);
  const service = createKeyService(seed, parallelism, everyMs, takesMs);
  await service.advance(5 * MINUTE);
  service.pause(true);
  await service.advance(random.between(5, 20) * MINUTE);
  service.pause(false);
  const predictions: { readonly at: number; readonly drainsIn: number }[] = [];
  for (let left = 350; left > 0 && service.waiting() > 0; left -= 1) {
    await service.advance(READ_EVERY);
    const drainsIn = service.drainsIn();
    if (drainsIn !== undefined) predictions.push({ at: service.now(), drainsIn });
  }
  // Omit predictions of the last minute: the read interval causes most of their error.
  const end = service.now();
  return predictions.filter(({ at }) => end - at >= MINUTE).map(({ at, drainsIn }) => drainsIn / (end - at));
}
