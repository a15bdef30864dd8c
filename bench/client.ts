import { systemClock } from '../src/kit/clock.ts';
import type { Counter } from '../src/kit/counter.ts';
import { Secret } from '../src/kit/secret.ts';
import type { Tracer } from '../src/kit/tracer.ts';
import { createBudget } from '../src/upstream/budget.ts';
import { createClient } from '../src/upstream/client.ts';
import { createDispatcher } from '../src/upstream/dispatcher.ts';

export const NO_TRACER: Tracer = {
  span: (_name, _attributes, work) => work({ set: () => undefined, fail: () => undefined }),
};

/** Number of concurrent calls. */
export const CONCURRENCY = 8;

export const NOWHERE = { inc: () => undefined, observe: () => undefined };

/** Creates a real client whose only limit is `CONCURRENCY`. */
export async function createBenchClient(
  url: string,
  token: string,
  requests: Counter<'endpoint' | 'outcome'> = NOWHERE,
) {
  const limits = { requestsPerSecond: 100_000, burst: 100_000, concurrency: CONCURRENCY, requestsPerDay: 1e9 };
  const dispatcher = createDispatcher({ connectTimeout: 1000 });
  const client = createClient({
    addresses: { base: url, regional: url },
    flowControlKeyPath: '',
    token: async () => new Secret(token),
    budget: createBudget(limits, systemClock, () => undefined),
    dispatcher,
    timeout: 30_000,
    meter: { requests, seconds: NOWHERE, bytes: NOWHERE, rowsRejected: NOWHERE, listsMissing: NOWHERE },
    clock: systemClock,
    random: () => 0,
    tracer: NO_TRACER,
    secrets: () => [],
    onTokenRejected: () => undefined,
  });
  return { client, dispatcher, systemClock };
}
