import type { Clock } from '../kit/clock.ts';
import type { Log, LogBatch, LogLine } from '../kit/log.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Span } from '../kit/tracer.ts';
import { createYielder } from '../kit/yielder.ts';
import type { Change } from '../model/change.ts';
import type { FailedFilter, Idle } from '../model/status.ts';
import type { Store } from '../store/store.ts';
import type { CollectorState } from './board.ts';
import { CommitError, createCommitQueue } from './commit-queue.ts';
import type { FailedRound } from './retry.ts';

interface RoundLogDeps {
  readonly account: string;
  readonly collector: string;
  readonly log: Log;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Whether the store is unavailable, which is logged once for all accounts. */
  readonly isStoreUnavailable?: (() => boolean) | undefined;
}

/** Interval at which a continuing failure with the same reason is logged again (ms). */
const REPEAT_AFTER = 300_000;

/** Logs a collector's rounds: each failure reason immediately and every five minutes, and the recovery once. */
function createRoundLog({ account, collector, log, clock, isStoreUnavailable }: RoundLogDeps) {
  /** Time when each reason was last logged (monotonic clock), by round. */
  const failing = new Map<string, Map<string, number>>();
  const failingFilters = new Map<string, { readonly reason: string; readonly at: number }>();
  return {
    succeeded(round: string, seconds: number): void {
      const fields = { account, collector, round };
      if (failing.delete(round)) log.info(fields, 'collection recovered');
      else log.debug({ ...fields, seconds }, 'collected');
    },
    /** `age`: time since the last complete round (ms). */
    failed(round: string, why: { readonly reason: string; readonly error: string }, age: number) {
      const fields = { account, collector, round, ...why, ageSeconds: Math.round(age / 1000) };
      if (why.reason === 'store' && isStoreUnavailable?.()) return log.debug(fields, 'round waits for the store');
      const logged = failing.get(round) ?? new Map<string, number>();
      failing.set(round, logged);
      const last = logged.get(why.reason);
      const now = clock.monotonic();
      if (last !== undefined && now - last < REPEAT_AFTER) {
        log.debug(fields, 'collection still fails');
        return;
      }
      logged.set(why.reason, now);
      if (why.reason === 'bug') log.error(fields, 'bug');
      else log.warn(fields, last === undefined ? 'collection failed' : 'collection still fails');
    },
    filters(failed: readonly FailedFilter[]): void {
      const names = new Set(failed.map(({ name }) => name));
      for (const filter of failingFilters.keys()) {
        if (names.has(filter)) continue;
        failingFilters.delete(filter);
        log.info({ account, collector, filter }, 'filter recovered');
      }
      const now = clock.monotonic();
      for (const { name, reason, message } of failed) {
        const last = failingFilters.get(name);
        if (last?.reason === reason && now - last.at < REPEAT_AFTER) continue;
        failingFilters.set(name, { reason, at: now });
        log.warn({ account, collector, filter: name, reason, error: message }, 'filter failed');
      }
    },
  };
}

export interface RoundStep<Memory, Walk> {
  readonly round: string;
  /** Start of the round (ms since the Unix epoch): the same in all its steps. */
  readonly now: number;
  /** Memory at the start of the step. Read-only: other rounds of the collector run concurrently. */
  readonly memory: Memory;
  /** Where the previous step stopped; undefined in the first step of a round. Lost if the round fails. */
  readonly walk: Walk | undefined;
  readonly signal: AbortSignal;
}

/** Result of one step, ready to be folded into memory. */
export interface Observation<Facts, Memory, Walk> {
  /**
   * Folds the data into `memory` without IO, possibly in place. Another round may have changed memory since the step started.
   * Calls never overlap.
   */
  fold(memory: Memory): Folded<Facts, Memory>;
  /** Whether rows were unreadable. The round succeeds and counts as incomplete. */
  readonly isPartial?: boolean;
  /** Failed filters, set by the last step. The round succeeds and counts as incomplete. */
  readonly failedFilters?: readonly FailedFilter[] | undefined;
  /** Input of the next step; undefined after the last. A step reads at most 10 pages, so a backlog starves no other collector. */
  readonly more: Walk | undefined;
  /** Reason why the first step sent no request. The round ends without success or fold. */
  readonly idle?: Idle | undefined;
  /** Whether the step failed. The next step throws its error. */
  readonly hasFailed?: boolean;
}

export interface Folded<Facts, Memory> {
  readonly memory: Memory;
  /** Immutable facts so far; may be undefined before the last step. Earlier steps update only counters and histograms. */
  readonly facts: Facts | undefined;
  /** Rows to commit before counters and histograms are shown. Keys lack the collector's prefix. */
  readonly changes: readonly Change[];
  readonly log?: LogBatch | undefined;
  /** Called when `changes` and all rows of earlier folds are committed. Not called if the commit fails. */
  readonly onCommitted?: () => void;
}

/** A collector bound to the reader of one account. */
export interface Observer<Facts = unknown, Memory = unknown, Walk = unknown> {
  readonly name: string;
  restore(rows: ReadonlyMap<string, string>): Memory;
  /** Returns the facts of a restored memory, for the time before the first round. */
  recall?(memory: Memory): Facts | undefined;
  observe(step: RoundStep<Memory, Walk>): Promise<Observation<Facts, Memory, Walk>>;
}

export interface RunnerDeps<Facts, Memory, Walk> extends Pick<Runtime, 'clock' | 'log' | 'tracer'> {
  readonly observer: Observer<Facts, Memory, Walk>;
  readonly state: CollectorState<Facts>;
  readonly store: Store;
  /** Returns the delay before a failed round is repeated (ms); by default, it is repeated after its interval. */
  readonly retry?: ((failed: FailedRound) => number) | undefined;
  /** Whether the store is unavailable, which is logged once for all accounts. */
  readonly isStoreUnavailable?: (() => boolean) | undefined;
}

/** Runs one round of one collector for one account. Never rejects. */
export type RunRound = (round: string, signal: AbortSignal) => Promise<void>;

interface Folding<Facts, Memory, Walk> extends Pick<Observation<Facts, Memory, Walk>, 'fold'> {
  readonly readIn: number;
  /** Set if the commit may wait for a later step: why the previous commit failed. */
  readonly refusal: unknown;
}

/** Maximum number of log lines waiting for a commit. Further ones count as omitted. */
const MAX_UNLOGGED = 10_000;

/** Returns the reason of an error. An error without a reason is a bug. */
function reasonOf(error: unknown): string {
  return error instanceof Error && 'reason' in error && typeof error.reason === 'string' ? error.reason : 'bug';
}

/**
 * Runs the rounds of a collector. Counters and histograms are committed before they are shown, so that values never fall after a
 * crash. Rows that the store refuses are part of the next commit; until then counters are frozen and gauges continue.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its functions share the state of the next commit.
export async function createRunner<Facts, Memory, Walk>({
  observer,
  state,
  store,
  clock,
  log,
  tracer,
  retry,
  isStoreUnavailable,
}: RunnerDeps<Facts, Memory, Walk>): Promise<RunRound> {
  const { account } = state;
  const queue = createCommitQueue({ account, collector: observer.name, store, log });
  let memory = observer.restore(await queue.committed());
  let unlogged: LogLine[] = [];
  let omitted = 0;
  /** Whether a fold is in progress. If this stays true, the fold failed midway and memory is unusable. */
  let memoryDirty = false;
  /** Number of reloads of memory. Observations that began before the latest reload are discarded. */
  let generation = 0;
  state.committed(observer.recall?.(memory));
  const roundLog = createRoundLog({ account, collector: observer.name, log, clock, isStoreUnavailable });
  const turns = createYielder();
  let committing: Promise<unknown> = Promise.resolve();

  let reloading: Promise<void> | undefined;
  /** Reloads memory from the committed rows if a fold failed midway. */
  function reloadFromStore(): Promise<void> | undefined {
    if (!memoryDirty) return undefined;
    reloading ??= queue
      .committed()
      .then(rows => {
        memory = observer.restore(rows);
        queue.clear();
        [unlogged, omitted] = [[], 0];
        generation += 1;
        memoryDirty = false;
      })
      .finally(() => {
        reloading = undefined;
      });
    return reloading;
  }

  function addWarnings({ lines, omitted: more }: LogBatch = { lines: [], omitted: 0 }): void {
    const all = [...unlogged, ...lines];
    unlogged = all.slice(0, MAX_UNLOGGED);
    omitted += more + all.length - unlogged.length;
  }

  async function logWarnings(): Promise<void> {
    const [lines, rest] = [unlogged, omitted];
    [unlogged, omitted] = [[], 0];
    for (const { fields, message } of lines) {
      log.warn({ account, ...fields }, message);
      await turns.pass();
    }
    if (rest > 0) log.warn({ account, collector: observer.name, lines: rest }, 'log lines omitted: too many at once');
  }

  /**
   * Folds one step and commits it. Commits nothing if `refusal` is set and the store refuses rows. Serialized across a
   * collector's rounds, so that each commit is consistent. If the fold succeeded, but its rows are not committed, returns why:
   * memory and rows are kept, so the round continues.
   */
  function foldAndCommit(
    { fold, readIn, refusal }: Folding<Facts, Memory, Walk>,
    onFolded: (facts: Facts | undefined) => void,
  ): Promise<unknown> {
    const turn = committing.then(async () => {
      await reloadFromStore();
      if (readIn !== generation) throw new CommitError('memory was reloaded from the store during this read');
      await queue.commitIfFull();
      memoryDirty = true;
      const folded = fold(memory);
      memoryDirty = false;
      const { facts, changes, onCommitted } = folded;
      memory = folded.memory;
      addWarnings(folded.log);
      queue.add(changes);
      onFolded(facts);
      if (refusal && queue.isRefused()) return refusal;
      try {
        await queue.commit();
      } catch (error) {
        return error;
      }
      onCommitted?.();
      await logWarnings();
      if (facts !== undefined) state.committed(facts);
      return undefined;
    });
    committing = turn.catch(() => undefined);
    return turn;
  }

  return async (round, signal) => {
    const now = clock.now();
    const start = clock.monotonic();
    const seconds = () => (clock.monotonic() - start) / 1000;
    const attributes = { account, collector: observer.name, round };

    state.started(round);

    async function collect(span: Span): Promise<void> {
      let readUntil = start;
      let complete = false;
      let partial = false;
      try {
        let walk: Walk | undefined;
        let refusal: unknown;
        await reloadFromStore();
        const readIn = generation;
        do {
          signal.throwIfAborted();
          const observed = await observer.observe({ round, now, memory, walk, signal });
          const { fold, more, idle, isPartial = false, failedFilters, hasFailed = false } = observed;
          if (idle) return state.idled(round, idle);
          complete = more === undefined;
          partial ||= isPartial;
          // After a rejected commit, rows wait until the end of the round: a retry at each step could take minutes.
          if (complete) refusal = undefined;
          refusal = await foldAndCommit({ fold, readIn, refusal }, facts => {
            // Without facts, the board keeps the previous ones.
            if (complete && facts !== undefined) state.observed(round, { at: now, facts, partial, failedFilters });
          });
          if (!hasFailed) readUntil = clock.monotonic();
          walk = more;
        } while (walk !== undefined);
        if (refusal) throw refusal;
        state.succeeded(round, { durationSeconds: seconds(), partial });
        roundLog.succeeded(round, seconds());
        roundLog.filters(state.status().failedFilters ?? []);
      } catch (error) {
        if (signal.aborted) return;
        const reason = reasonOf(error);
        span.fail(reason);
        const message = error instanceof Error ? error.message : String(error);
        const next = retry?.({ ...state.nextFailure(round), reason, readFor: readUntil - start });
        // The client retries a rejected token at its own interval. Until then, it fails every request.
        const retryAt = next !== undefined && reason !== 'unauthorized' ? clock.now() + next : undefined;
        state.failed(round, { durationSeconds: seconds(), complete, reason, message, retry: next, retryAt });
        const stack = reason === 'bug' && error instanceof Error ? { stack: error.stack } : {};
        roundLog.failed(round, { reason, error: message, ...stack }, state.age(round));
      }
    }
    await tracer.span(`collect ${observer.name}`, attributes, collect);
  };
}
