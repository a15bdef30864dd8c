import type { Exposition } from '../metrics/exposition.ts';
import type { LoopSpec } from '../scheduler/loop-set.ts';
import type { Account } from './account.ts';

/** Number of accounts from which the exposition is rendered before the scrape. */
const MANY = 50;

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
