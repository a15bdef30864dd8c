import type { Counter } from '../src/kit/counter.ts';
import type { Tracer } from '../src/kit/tracer.ts';
import { load } from './measure.ts';

export const NO_TRACER: Tracer = {
  span: (_name, _attributes, work) => work({ set: () => undefined, fail: () => undefined }),
  headers: () => ({}),
};

/** Calls at a time. */
export const CONCURRENCY = 8;

const NOWHERE = { inc: () => undefined, observe: () => undefined };

/** The real client, limited by CONCURRENCY alone. */
export async function createBenchClient(
  url: string,
  token: string,
  requests: Counter<'endpoint' | 'outcome'> = NOWHERE,
) {
  const { createClient } = await load<typeof import('../src/upstream/client.ts')>('upstream/client.js');
  const { createDispatcher } = await load<typeof import('../src/upstream/dispatcher.ts')>('upstream/dispatcher.js');
  const { createBudget } = await load<typeof import('../src/upstream/budget.ts')>('upstream/budget.js');
  const { fixedToken } = await load<typeof import('../src/upstream/token.ts')>('upstream/token.js');
  const { Secret } = await load<typeof import('../src/kit/secret.ts')>('kit/secret.js');
  const { systemClock } = await load<typeof import('../src/kit/clock.ts')>('kit/clock.js');
  const limits = { requestsPerSecond: 100_000, burst: 100_000, concurrency: CONCURRENCY, requestsPerDay: 1e9 };
  const dispatcher = createDispatcher({ connectTimeout: 1000 });
  const client = createClient({
    addresses: { base: url, regional: url },
    flowControlKeyPath: '',
    token: fixedToken(new Secret(token)),
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
