import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import type { Tracer } from '../../src/kit/tracer.ts';
import type { Budget } from '../../src/upstream/budget.ts';
import { createDispatcher } from '../../src/upstream/dispatcher.ts';
import { createWriter, type WriterDeps } from '../../src/upstream/writer.ts';
import { afterThisTest, TOKEN } from '../support/client.ts';

export const ID = '1725323658779-0';

/** Creates a real writer for the URL `regional` and records its counts, spans and budget calls. The budget limits nothing. */
export function createTestWriter(regional: string, overrides: Partial<WriterDeps> & { ca?: string } = {}) {
  const seen = { requests: {} as Record<string, number>, bytes: 0, timed: 0 };
  const turns: string[] = [];
  const pauses: number[] = [];
  const spans: object[] = [];
  const budget: Budget = {
    run(priority, _signal, work) {
      turns.push(priority);
      return work();
    },
    pause: ms => void pauses.push(ms),
    wait: () => 0,
    remaining: () => 1,
    spent: () => ({ day: 0, requests: 0 }),
  };
  const tracer: Tracer = {
    span(name, attributes, work) {
      const span = { name, ...attributes };
      spans.push(span);
      return work({
        set: more => void Object.assign(span, more),
        fail: reason => void Object.assign(span, { 'error.type': reason }),
      });
    },
  };
  const dispatcher = createDispatcher({ connectTimeout: 60_000, ca: overrides.ca });
  afterThisTest(() => dispatcher.destroy());
  const writer = createWriter({
    addresses: { regional },
    token: async () => new Secret(TOKEN),
    budget,
    dispatcher,
    timeout: 60_000,
    meter: {
      requests: {
        inc({ endpoint, outcome }) {
          const key = `${endpoint} ${outcome}`;
          seen.requests[key] = (seen.requests[key] ?? 0) + 1;
        },
      },
      seconds: {
        observe() {
          seen.timed += 1;
        },
      },
      bytes: {
        inc(_labels, by = 1) {
          seen.bytes += by;
        },
      },
    },
    clock: systemClock,
    tracer,
    ...overrides,
  });
  const go = (): string | undefined => undefined;
  const cancel = (id = ID, signal = new AbortController().signal, stop = go) => writer.cancel(id, signal, stop);
  return { cancel, seen, turns, pauses, spans };
}
