import { lstatSync } from 'node:fs';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Brake } from './brake.ts';
import type { Journal } from './journal.ts';
import { isAskedBy } from './journal-state.ts';
import type { Judged } from './judge.ts';
import type { AutoCancelOptions } from './options.ts';
import type { AccountMoment, CallbackMoment, Lease, WalkView } from './stages.ts';

export interface MomentsDeps {
  readonly account: string;
  readonly options: AutoCancelOptions;
  readonly policy: string;
  readonly journal: Journal;
  readonly brake: Brake;
  walk(): WalkView;
  /** Whether the stop file exists or may exist. */
  isStopped(): boolean;
  /** Alerts of the account that are firing or of unknown state, by name. */
  alertStates(): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Difference between the wall clock and the service's clock (ms), or undefined if it is unknown. */
  clockSkew(): number | undefined;
  readonly lease?: () => Lease | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** The decision that a callback is part of, and the progress of its attempt. */
export type Progress = Pick<CallbackMoment, 'walkAt' | 'usesBefore'> & Partial<Pick<CallbackMoment, 'look' | 'isLate'>>;

/** The walk of the last decision, and the number of uses in the journal before it. */
export interface LastRun {
  walkAt: number;
  usesBefore: number;
}

/** Input of the stages at the current time. To be read again after each wait, up to the request itself. */
export type Moments = ReturnType<typeof createMoments>;

/** Number of complete walks to wait for after the start or a clock step. */
const WALKS_BEFORE = 3;

/** Whether a stop file exists or may exist: an unreadable folder counts as one with the file. */
export function mayBeThere(file: string): boolean {
  try {
    lstatSync(file);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

/** Change of the difference between wall and monotonic time (ms) that counts as a clock step. */
const CLOCK_STEP = 30_000;
/** The longest window (ms). This long after a step, everything done before it is out of all windows, so the wall clock counts again. */
const LONGEST_WINDOW = 24 * 3_600_000;

/**
 * Time for limits, in milliseconds since the Unix epoch: setting the wall clock back or forward neither frees nor renews a limit.
 * `lastAt`: the latest time in the journal. `onStep`: called with the step (ms) when a change of the wall clock is detected.
 */
function createLimitClock(clock: Pick<Clock, 'now' | 'monotonic'>, lastAt: number, onStep: (ms: number) => void) {
  const start = clock.now();
  let base = Math.max(start, lastAt) - clock.monotonic();
  let offset = start - clock.monotonic();
  /** Monotonic time of the last step. */
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
    const isCalm = monotonic - steppedAt >= LONGEST_WINDOW;
    if (isCalm || offset - base <= CLOCK_STEP) base = Math.max(base, offset);
    latest = Math.max(latest, wall, base + monotonic);
    return base + monotonic;
  }

  return {
    /** For time windows: monotonic, starting at the later of the wall clock and the latest time in the journal. */
    elapsed,
    /** For expiry: the latest time that any clock has shown. */
    latest(): number {
      elapsed();
      return latest;
    },
    /** For journal lines. */
    stamp: (): number => Math.max(elapsed(), clock.now()),
  };
}

export function createMoments(deps: MomentsDeps) {
  const { account, options, policy, journal, brake, clock, log } = deps;
  const { state } = journal;
  /** Complete walks of this process. */
  let walks = 0;
  let walksNeeded = WALKS_BEFORE;
  const behind = state.lastAt - clock.now();
  if (behind > 0) {
    log.warn(
      { account, seconds: behind / 1000 },
      'the newest journal entry is in the future: limits count from its time',
    );
  }
  const time = createLimitClock(clock, state.lastAt, ms => {
    // Walks may have completed since the last check.
    walksNeeded = (deps.walk().facts?.walks ?? walks) + WALKS_BEFORE;
    log.warn(
      { account, seconds: ms / 1000 },
      'the system clock was changed: nothing is cancelled before three more complete walks',
    );
  });

  function accountMoment(walkAt?: number): AccountMoment {
    const walk = deps.walk();
    // The count does not restart while facts are withdrawn.
    walks = walk.facts?.walks ?? walks;
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
      // Evaluated only if a stage reads it.
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
    /** `walkAt`: start of the walk to decide on. To be called often: detects new walks and clock steps. */
    account: accountMoment,
    callback(judged: Judged, { look, isLate = false, walkAt, usesBefore }: Progress): CallbackMoment {
      const known = state.actions.get(judged.action);
      const own = known && isAskedBy(known, judged, policy) ? known : undefined;
      // A spread would evaluate the getters.
      return Object.assign(accountMoment(walkAt), { walkAt, judged, own, usesBefore, look, isLate });
    },
  };
}
