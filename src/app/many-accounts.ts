import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import type { Exposition } from '../metrics/exposition.ts';
import type { LoopSpec } from '../scheduler/loop-set.ts';
import type { Account } from './account.ts';

/** What would only make a small process larger is done from so many accounts on. */
const MANY = 50;

/**
 * Bytes of the young generation, both halves. With the 2 MiB of a small process, a quarter of the processor time of 300 accounts
 * is garbage collection.
 */
const YOUNG = 16 * 2 ** 20;

/** V8's own thresholds, for which `main.js` has higher ones: 300 accounts are up for a sixth less processor time, and 8 MB more. */
const USUAL = [
  '--invocation-count-for-maglev=400',
  '--invocation-count-for-maglev-osr=100',
  '--invocation-count-for-turbofan=3000',
  '--invocation-count-for-osr=500',
  // Collections would make the young generation smaller, and come so often that code is gone before it runs again.
  '--no-optimize-for-size',
  '--bytecode-old-age=6',
];

/**
 * Old garbage may be this share of what lives before it is collected. Each collection holds the loop for a tenth of a second where
 * there are a thousand accounts: with 20 that is more than one time in a hundred that a timer is due, and a tenth less memory.
 */
const OLD = '--heap-growing-percent=60';

/** With few accounts a collection is short, and memory is what counts. */
const OLD_OF_FEW = '--heap-growing-percent=20';

const youngSize = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? 0;

/** V8's settings for many accounts, which are those of the whole process. */
export interface Room {
  /** Gives V8 what it needs for so many. Nothing is taken back: fewer accounts need a restart for that. */
  makeFor(accounts: number): void;
}

/** Once so many accounts have started, old garbage is collected sooner than at the start, which that would make a tenth longer. */
export function saveRoom(accounts: number): void {
  if (accounts < MANY) setFlagsFromString(OLD_OF_FEW);
}

/**
 * Lets V8's young generation grow up to `YOUNG`, for the rest of the process. Its flags for that are read when the heap is
 * made, all but the factor by which it grows: with 1 it stays as it is. A collection of old garbage while little is allocated,
 * as when the service is down, makes it as small as at first: it is to grow again.
 */
function watchYoungGeneration(): void {
  let isGrowing = false;
  function look(): void {
    const isSmall = youngSize() < YOUNG;
    if (isSmall !== isGrowing) setFlagsFromString(`--semi-space-growth-factor=${isSmall ? 2 : 1}`);
    isGrowing = isSmall;
  }
  new PerformanceObserver(look).observe({ entryTypes: ['gc'] });
  look();
}

export function createRoom(): Room {
  let isMade = false;
  return {
    makeFor(accounts) {
      if (accounts < MANY || isMade) return;
      isMade = true;
      for (const flag of [...USUAL, OLD]) setFlagsFromString(flag);
      watchYoungGeneration();
    },
  };
}

/** Milliseconds between two looks for accounts whose rounds have ended. */
const PREPARE_EVERY = 1000;

/** Renders what many accounts say when it has changed, instead of all of it at the scrape. */
export function preparing(
  accounts: readonly Pick<Account, 'name' | 'roundsEnded'>[],
  exposition: Pick<Exposition, 'prepare'>,
): LoopSpec[] {
  if (accounts.length < MANY) return [];
  const seen = new Map<string, number>();
  async function prepare(): Promise<void> {
    const changed = accounts.filter(({ name, roundsEnded }) => roundsEnded() !== seen.get(name));
    for (const { name, roundsEnded } of changed) seen.set(name, roundsEnded());
    // What throws here throws at the scrape, which says so.
    await exposition.prepare(changed.map(({ name }) => name)).catch(() => undefined);
  }
  return [{ body: prepare, every: PREPARE_EVERY, firstDelay: PREPARE_EVERY }];
}
