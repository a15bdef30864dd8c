import { lstatSync } from 'node:fs';
import type { Clock } from '../kit/clock.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Brake } from './brake.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import type { Journal } from './journal.ts';
import { isRequestedBy } from './journal-state.ts';
import type { AutoCancelOptions } from './options.ts';
import type { AccountContext, CallbackContext, Lease, WalkView } from './stages.ts';

export interface ContextsDeps extends Pick<Runtime, 'clock' | 'log'> {
  readonly account: string;
  readonly options: AutoCancelOptions;
  readonly policy: string;
  readonly journal: Journal;
  readonly brake: Brake;
  walk(): WalkView;
  isStopped(): boolean;
  /** Returns the account's alerts in the state firing or unknown, by name. */
  alertStates(): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Returns the largest proven difference between the wall clock and the service's clock (ms); undefined if unknown. */
  clockSkew(): number | undefined;
  readonly lease?: () => Lease | undefined;
}

export type Progress = Pick<CallbackContext, 'walkAt' | 'usesBefore'> &
  Partial<Pick<CallbackContext, 'look' | 'next' | 'isLate'>>;

/** Start of the walk of the last decision, and length of the journal's `uses` before that decision. */
export interface LastRun {
  walkAt: number;
  usesBefore: number;
}

/** Creates the input of the stages. Create new input after each wait. */
export type Contexts = ReturnType<typeof createContexts>;

const WALKS_BEFORE = 3;

/** Whether a stop file exists, or may exist in an unreadable folder. */
export function mayExist(file: string): boolean {
  try {
    lstatSync(file);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

/** Smallest change of wall time relative to monotonic time that counts as a clock step (ms). */
const CLOCK_STEP = 30_000;
/** Longest window of a limit (ms). */
const MAX_WINDOW = 24 * 3_600_000;

/**
 * Creates a clock for limits: steps of the wall clock do not change their windows. `lastAt`: latest time in the journal (ms
 * since the Unix epoch).
 */
function createLimitClock(clock: Pick<Clock, 'now' | 'monotonic'>, lastAt: number, onStep: (ms: number) => void) {
  const start = clock.now();
  let base = Math.max(start, lastAt) - clock.monotonic();
  let offset = start - clock.monotonic();
  let steppedAt = Number.NEGATIVE_INFINITY;
  let latest = Math.max(start, lastAt);

  function elapsed(): number {
    const [wall, monotonic] = [clock.now(), clock.monotonic()];
    const step = wall - monotonic - offset;
    if (Math.abs(step) > CLOCK_STEP) {
      steppedAt = monotonic;
      onStep(step);
    }
    offset = wall - monotonic;
    const isCalm = monotonic - steppedAt >= MAX_WINDOW;
    if (isCalm || offset - base <= CLOCK_STEP) base = Math.max(base, offset);
    latest = Math.max(latest, wall, base + monotonic);
    return base + monotonic;
  }

  return {
    /** Returns the time for limits: the monotonic time, but at least the latest journal time. */
    elapsed,
    /** Returns the time for expiry checks: the latest time that the wall clock or the time for limits has shown. */
    latest(): number {
      elapsed();
      return latest;
    },
    /** Returns the time for journal lines (whole ms), rounded up so that no limit ends early. */
    stamp: (): number => Math.max(Math.ceil(elapsed()), clock.now()),
  };
}

export function createContexts(deps: ContextsDeps) {
  const { account, options, policy, journal, brake, clock, log } = deps;
  const { state } = journal;
  let walks = 0;
  let walksNeeded = WALKS_BEFORE;
  const behind = state.lastAt - clock.now();
  if (behind > 0) {
    log.warn(
      { account, seconds: behind / 1000 },
      'the newest journal entry is in the future: limits use its time instead of the current time',
    );
  }
  const time = createLimitClock(clock, state.lastAt, ms => {
    // Walks may have completed since `walks` was updated.
    walksNeeded = (deps.walk().facts?.walks ?? walks) + WALKS_BEFORE;
    log.warn(
      { account, seconds: ms / 1000 },
      'the system clock was changed: cancels are suspended until three more walks are complete',
    );
  });

  function accountContext(walkAt?: number): AccountContext {
    const walk = deps.walk();
    // Keep the count while facts are withdrawn.
    walks = walk.facts?.walks ?? walks;
    // A clock step that this detects changes `walksNeeded`.
    const times = { elapsed: time.elapsed(), latest: time.latest(), wall: clock.now() };
    return {
      options,
      journal: state,
      brake,
      walk,
      walkAt,
      walksNeeded,
      clockSkew: deps.clockSkew(),
      lease: deps.lease?.(),
      // A getter, because this check reads the file system.
      get isStopped() {
        return deps.isStopped();
      },
      get alerts() {
        return deps.alertStates();
      },
      time: times,
    };
  }

  return {
    time,
    /** Returns the account's context. Call it regularly to detect clock steps. `walkAt`: start of the walk to decide on. */
    account: accountContext,
    callback(
      evaluated: EvaluatedCallback,
      { look, next, isLate = false, walkAt, usesBefore }: Progress,
    ): CallbackContext {
      const known = state.actions.get(evaluated.action);
      const own = known && isRequestedBy(known, evaluated, policy) ? known : undefined;
      // A spread would evaluate the lazy getters.
      return Object.assign(accountContext(walkAt), { walkAt, evaluated, own, usesBefore, look, next, isLate });
    },
  };
}
