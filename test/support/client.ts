import { afterEach } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import type { FlowControlEntry } from '../../src/model/message.ts';
import type { Reader } from '../../src/upstream/api.ts';
import { createBudget } from '../../src/upstream/budget.ts';
import { createClient, type UpstreamClientDeps } from '../../src/upstream/client.ts';
import { createDispatcher } from '../../src/upstream/dispatcher.ts';
import { createTestTracer } from './silent.ts';

export const TOKEN = 'test-token';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  // Close in reverse order: a process must end before its folder is deleted.
  for (const close of closers.splice(0).reverse()) await close();
});

/** Closes a resource at the end of the current test. */
export function afterThisTest(close: () => Promise<void>): void {
  closers.push(close);
}

/** Counts of a client: requests by `endpoint outcome`, rejected rows and missing lists by collector. */
export interface Counts {
  readonly requests: Record<string, number>;
  readonly rejected: Record<string, number>;
  readonly missing: Record<string, number>;
  bytes: number;
  timed: number;
}

/** Creates a real client for `baseUrl`. By default, it skips waits and has an unlimited budget. */
export function createTestClient(
  baseUrl: string,
  overrides: Partial<UpstreamClientDeps> & { connectTimeout?: number } = {},
) {
  const counts: Counts = { requests: {}, rejected: {}, missing: {}, bytes: 0, timed: 0 };
  const dispatcher = createDispatcher({ connectTimeout: overrides.connectTimeout ?? 60_000 });
  afterThisTest(() => dispatcher.destroy());
  const waits: number[] = [];
  const rejections: boolean[] = [];
  const clock = {
    ...systemClock,
    sleep(ms: number, signal?: AbortSignal) {
      waits.push(ms);
      return systemClock.sleep(0, signal);
    },
  };
  const limits = { requestsPerSecond: 10_000, burst: 10_000, concurrency: 100, requestsPerDay: 1_000_000 };
  const client = createClient({
    addresses: { base: baseUrl, regional: baseUrl },
    flowControlKeyPath: '/v2/flowControl/{flowControlKey}',
    token: async () => new Secret(TOKEN),
    budget: createBudget(limits, systemClock, () => undefined),
    dispatcher,
    timeout: 60_000,
    meter: {
      requests: {
        inc: ({ endpoint, outcome }) => {
          counts.requests[`${endpoint} ${outcome}`] = (counts.requests[`${endpoint} ${outcome}`] ?? 0) + 1;
        },
      },
      seconds: {
        observe: () => {
          counts.timed += 1;
        },
      },
      bytes: {
        inc: (_labels, by = 1) => {
          counts.bytes += by;
        },
      },
      rowsRejected: {
        inc: ({ collector }, by = 1) => {
          counts.rejected[collector] = (counts.rejected[collector] ?? 0) + by;
        },
      },
      listsMissing: {
        inc: ({ collector }, by = 1) => {
          counts.missing[collector] = (counts.missing[collector] ?? 0) + by;
        },
      },
    },
    clock,
    random: () => 0,
    tracer: createTestTracer(),
    secrets: () => [],
    onTokenRejected: rejected => void rejections.push(rejected),
    ...overrides,
  });
  return { client, reader: client.at('events'), counts, waits, rejections };
}

/** Returns all flow-control keys and the number of unreadable rows. */
export async function allKeys(reader: Reader, signal: AbortSignal) {
  const rows: FlowControlEntry[] = [];
  const rejected = await reader.flowControl(signal, row => void rows.push(row));
  return { rows, rejected };
}

/** Returns all rows of a list. */
export async function allRows<Row>(pages: AsyncIterator<{ rows: readonly Row[] }>): Promise<Row[]> {
  const rows: Row[] = [];
  for (let page = await pages.next(); !page.done; page = await pages.next()) rows.push(...page.value.rows);
  return rows;
}
