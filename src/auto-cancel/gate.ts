import { lstatSync } from 'node:fs';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Journal } from './journal.ts';
import { type Action, isAskedBy } from './journal-state.ts';
import { type Judged, modeOf } from './judge.ts';
import { createLimitClock, type LimitClock } from './limit-clock.ts';
import type { AutoCancelOptions, Mode, Rule } from './options.ts';
import {
  type AccountMoment,
  abortReason,
  accountReason,
  type CallbackMoment,
  skipReason,
  staleReason,
  type WalkView,
} from './stages.ts';
import { isApproved } from './waits.ts';

export interface GateDeps {
  readonly account: string;
  readonly options: AutoCancelOptions;
  /** Hash of the rules. */
  readonly policy: string;
  readonly journal: Journal;
  /** What the board shows now. */
  walk(): WalkView;
  /** Whether the stop file is there, or may be. */
  isStopped(): boolean;
  /** Alerts of the account that fire, and those of which it is not known, by name. */
  alertStates(): ReadonlyMap<string, 'firing' | 'unknown'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Which decision a callback is judged by, and how far its attempt has come. */
export type Progress = Pick<CallbackMoment, 'walkAt' | 'usesBefore'> & Partial<Pick<CallbackMoment, 'look' | 'isLate'>>;

/** Asks the stages at this very moment: to be called again after each wait, up to the request itself. Reasons are one word. */
export interface Gate {
  readonly time: LimitClock;
  /** Why walks can't be relied on. `walkAt`: begin of the walk that is decided upon. To be called often: sees walks come, and the clock being set. */
  staleReason(walkAt?: number): string | undefined;
  /** Why nothing at all may be done in the account. */
  accountReason(): string | undefined;
  /** Why this callback is left alone. */
  skipReason(judged: Judged, progress: Progress): string | undefined;
  /** Why a request whose intent is written must not be sent. */
  abortReason(judged: Judged, progress: Progress): string | undefined;
  /** What was marked, approved or sent for this rule, in this mode, by this policy. */
  own(judged: Judged): Action | undefined;
  /** Whether what was sent may be sent once more: its rule, mode and policy are the same, and an approval still holds. */
  maySendAgain(judged: Judged): boolean;
  /** What a rule may do now. */
  modeOf(rule: Rule): Mode;
}

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

export function createGate(deps: GateDeps): Gate {
  const { account, options, policy, journal, clock, log } = deps;
  const { state } = journal;
  /** Complete walks of this process, as far as is known. */
  let walks = 0;
  let walksNeeded = WALKS_BEFORE;
  const behind = state.lastAt - clock.now();
  if (behind > 0) {
    log.warn(
      { account, seconds: behind / 1000 },
      'the last line of the journal is of the future: limits count from it',
    );
  }
  const time = createLimitClock(clock, state.lastAt, ms => {
    // More may have come than was seen.
    walksNeeded = (deps.walk().facts?.walks ?? walks) + WALKS_BEFORE;
    log.warn({ account, seconds: ms / 1000 }, 'the clock was set: nothing is cancelled for some walks');
  });

  function accountMoment<At extends number | undefined>(walkAt: At): AccountMoment & { readonly walkAt: At } {
    const walk = deps.walk();
    // What is not shown now has not begun anew.
    walks = walk.facts?.walks ?? walks;
    const times = { elapsed: time.elapsed(), latest: time.latest(), wall: clock.now() };
    return {
      options,
      journal: state,
      walk,
      walkAt,
      walksNeeded,
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

  const callbackMoment = (judged: Judged, { walkAt, usesBefore, look, isLate = false }: Progress): CallbackMoment =>
    // Not spread: that would ask for everything.
    Object.assign(accountMoment(walkAt), { judged, own: own(judged), usesBefore, look, isLate });

  function own({ action, rule, mode }: Judged): Action | undefined {
    const known = state.actions.get(action);
    return known && isAskedBy(known, { rule: rule.name, mode, policy }) ? known : undefined;
  }

  return {
    time,
    staleReason: walkAt => staleReason(accountMoment(walkAt)),
    accountReason: () => accountReason(accountMoment(undefined)),
    skipReason: (judged, progress) => skipReason(callbackMoment(judged, progress)),
    abortReason: (judged, progress) => abortReason(callbackMoment(judged, progress)),
    own,
    maySendAgain(judged) {
      const asked = own(judged);
      if (!asked || judged.mode === 'plan') return false;
      return judged.mode !== 'approve' || isApproved(asked, time.latest());
    },
    modeOf: rule => modeOf(rule, options.mode, time.latest()),
  };
}
