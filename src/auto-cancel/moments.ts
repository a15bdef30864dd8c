import { lstatSync } from 'node:fs';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Brake } from './brake.ts';
import type { Journal } from './journal.ts';
import { isAskedBy } from './journal-state.ts';
import type { Judged } from './judge.ts';
import { createLimitClock } from './limit-clock.ts';
import type { AutoCancelOptions } from './options.ts';
import type { AccountMoment, CallbackMoment, Lease, WalkView } from './stages.ts';

export interface MomentsDeps {
  readonly account: string;
  readonly options: AutoCancelOptions;
  readonly policy: string;
  readonly journal: Journal;
  readonly brake: Brake;
  walk(): WalkView;
  /** Whether the stop file is there, or may be. */
  isStopped(): boolean;
  /** Alerts of the account that are firing or of unknown state, by name. */
  alertStates(): ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Difference between the wall clock and the service's clock (ms), or undefined if it is unknown. */
  clockSkew(): number | undefined;
  /** Undefined where no other replica can hold the account. */
  readonly lease?: () => Lease | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Which decision a callback is judged by, and how far its attempt has come. */
export type Progress = Pick<CallbackMoment, 'walkAt' | 'usesBefore'> & Partial<Pick<CallbackMoment, 'look' | 'isLate'>>;

/** The walk that was decided upon last, and the uses that the journal had when it came. */
export interface LastRun {
  walkAt: number;
  usesBefore: number;
}

/** What the stages are asked about, as it is at this very moment: to be read again after each wait, up to the request itself. */
export type Moments = ReturnType<typeof createMoments>;

/** Complete walks after the start, or after the clock has stepped, before anything is done. */
const WALKS_BEFORE = 3;

/** Whether a stop file is there, or may be: what hides it, such as a folder that may not be read, does not undo it. */
export function mayBeThere(file: string): boolean {
  try {
    lstatSync(file);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

export function createMoments(deps: MomentsDeps) {
  const { account, options, policy, journal, brake, clock, log } = deps;
  const { state } = journal;
  /** Complete walks of this process, as far as is known. */
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
    // More may have come than was seen.
    walksNeeded = (deps.walk().facts?.walks ?? walks) + WALKS_BEFORE;
    log.warn(
      { account, seconds: ms / 1000 },
      'the system clock was changed: nothing is cancelled before three more complete walks',
    );
  });

  function accountMoment(walkAt?: number): AccountMoment {
    const walk = deps.walk();
    // What is not shown now has not started over.
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
      // Asked only when a stage wants to know.
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
    /** `walkAt`: begin of the walk that is decided upon. To be called often: sees walks come, and the clock being set. */
    account: accountMoment,
    callback(judged: Judged, { look, isLate = false, walkAt, usesBefore }: Progress): CallbackMoment {
      const known = state.actions.get(judged.action);
      const own = known && isAskedBy(known, judged, policy) ? known : undefined;
      // Not spread: that would ask for everything.
      return Object.assign(accountMoment(walkAt), { walkAt, judged, own, usesBefore, look, isLate });
    },
  };
}
