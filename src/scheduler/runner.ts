import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { Change, Store } from '../store/store.ts';
import type { Slot } from './board.ts';

/** What the runner needs of a collector, bound to one account's reader and options. */
export interface Observer {
  readonly name: string;
  restore(rows: ReadonlyMap<string, string>): unknown;
  observe(step: {
    round: string;
    now: number;
    memory: unknown;
    walk: unknown;
    signal: AbortSignal;
  }): Promise<{ facts: unknown; memory: unknown; changes: readonly Change[]; more: unknown }>;
}

export interface RunnerDeps {
  readonly observer: Observer;
  readonly slot: Slot;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracer: Tracer;
}

/** One round of one collector for one account. Never throws. */
export type RunRound = (round: string, signal: AbortSignal) => Promise<void>;

class CommitError extends Error {
  override readonly name = 'CommitError';
  readonly reason = 'store';
}

/** An error's closed word; whatever has none is a bug of ours. */
function reasonOf(error: unknown): string {
  return error instanceof Error && 'reason' in error && typeof error.reason === 'string' ? error.reason : 'bug';
}

/**
 * The shell round every collector: memory, commit, board, timing, span, log and catch are written here and nowhere else.
 * What a round found is committed before it is shown, so that nothing on /metrics can be lost by a crash.
 */
export async function createRunner({ observer, slot, store, clock, log, tracer }: RunnerDeps): Promise<RunRound> {
  const prefix = `${observer.name}/`;
  const stored = await store.scan(slot.account, prefix);
  let memory = observer.restore(new Map([...stored].map(([key, value]) => [key.slice(prefix.length), value])));

  async function commit(changes: readonly Change[]): Promise<void> {
    if (changes.length === 0) return;
    const rows = changes.map(({ key, value }) => ({ key: prefix + key, value }));
    await store.commit(slot.account, rows).catch((cause: unknown) => {
      throw new CommitError('the store did not commit', { cause });
    });
  }

  return async (round, signal) => {
    const now = clock.now();
    const start = clock.monotonic();
    const seconds = () => (clock.monotonic() - start) / 1000;
    const attributes = { account: slot.account, collector: observer.name, round };
    let complete = false;
    const before = slot.status().rounds.find(status => status.round === round);
    try {
      await tracer.span(`collect ${observer.name}`, attributes, async () => {
        let walk: unknown;
        let facts: unknown;
        do {
          signal.throwIfAborted();
          const step = await observer.observe({ round, now, memory, walk, signal });
          complete = step.more === undefined;
          await commit(step.changes);
          ({ memory, facts, more: walk } = step);
        } while (walk !== undefined);
        slot.succeeded(round, { at: now, durationSeconds: seconds(), facts });
      });
      if (before?.failure) log.info(attributes, 'collecting works again');
      else log.debug({ ...attributes, seconds: seconds() }, 'collected');
    } catch (error) {
      if (signal.aborted) return;
      const reason = reasonOf(error);
      const message = error instanceof Error ? error.message : String(error);
      slot.failed(round, { durationSeconds: seconds(), complete, reason, message });
      const fields = { ...attributes, reason, error: message };
      if (reason === 'bug') log.error({ ...fields, stack: error instanceof Error ? error.stack : undefined }, 'bug');
      else if (before?.failure?.reason === reason) log.debug(fields, 'collecting still fails');
      else log.warn(fields, 'collecting failed');
    }
  };
}
