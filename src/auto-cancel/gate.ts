import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { CallbackFacts } from '../model/callback.ts';
import type { Asker } from '../model/journal.ts';
import { actionsLeft, brakeOf, isApproved, limitOf, ruleActionsLeft, type Surroundings, waitOf } from './brakes.ts';
import { type Judged, type Mode, modeOf } from './candidates.ts';
import type { Journal } from './journal.ts';
import { type Action, isAskedBy } from './journal-state.ts';
import { createLimitClock, type LimitClock } from './limit-clock.ts';
import type { ActingRule, AutoCancelOptions } from './options.ts';
import { isOpen } from './windows.ts';

/** What the board says of an account's failure callbacks now. */
export interface Evidence {
  /** Of the last complete walk; undefined before the first, and when it is too old to be shown. */
  readonly facts: CallbackFacts | undefined;
  /** The last attempt of the walk came to its end, and in time. */
  readonly isFresh: boolean;
  /** So did the last attempt to follow the event log. */
  readonly eventsAreFresh: boolean;
}

export interface GateDeps {
  readonly account: string;
  readonly options: AutoCancelOptions;
  /** Hash of the rules. */
  readonly policy: string;
  readonly journal: Journal;
  evidence(): Evidence;
  isStopped(): boolean;
  /** Alerts of the account that fire, or of which it is not known. */
  alerts(): Surroundings['alerts'];
  readonly clock: Clock;
  readonly log: Log;
}

/** Says what may be done at this very moment: asked again after each wait, up to the request itself. Reasons are one word. */
export interface Gate {
  readonly time: LimitClock;
  /**
   * Why the evidence is not to be acted upon. `walkAt`: begin of the walk that was decided upon, which must be the newest.
   * To be called often: sees walks come, and the clock being set.
   */
  doubt(walkAt?: number): string | undefined;
  /** Why nothing at all may be done: doubt, or a brake. */
  held(): string | undefined;
  /** Why a request that may be sent now must not be, whose intent may be written already. */
  stop(judged: Judged, walkAt: number): string | undefined;
  /** What this one still waits for. */
  waitOf(judged: Judged, walkAt: number): 'grace' | 'awaiting_approval' | undefined;
  /** Why it may not be acted upon: all of the above, and the limits. `runFrom`: uses that were there when its run began. */
  whyNot(judged: Judged, walkAt: number, runFrom: number): string | undefined;
  /** What was marked, approved or sent for this rule, in this mode, by this policy. */
  own(judged: Judged): Action | undefined;
  /** Whether what was sent may be sent once more: its rule, mode and policy are the same, and an approval still holds. */
  maySendAgain(judged: Judged): boolean;
  modeOf(rule: ActingRule): Mode;
  /** Cancels that the limits leave, of all rules and of each. */
  left(rules: readonly ActingRule[]): { readonly rule: string | undefined; readonly left: number }[];
}

/** Complete walks after the start, or after the clock has stepped, before anything is done. */
const WALKS_BEFORE = 3;

/** There is a newer walk than the one that was decided upon: that judges. */
export const NEWER_WALK = 'newer_walk';

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
    // More may have come than `watch` has seen.
    walksNeeded = (deps.evidence().facts?.walks ?? walks) + WALKS_BEFORE;
    log.warn({ account, seconds: ms / 1000 }, 'the clock was set: nothing is cancelled for some walks');
  });

  const askerOf = ({ rule, mode }: Judged): Asker => ({ rule: rule.name, mode, policy });

  function watch(): void {
    // What is not shown now has not begun anew.
    walks = deps.evidence().facts?.walks ?? walks;
    time.elapsed();
  }

  function doubt(walkAt?: number): string | undefined {
    watch();
    const { facts, isFresh } = deps.evidence();
    if (!facts) return 'no_data';
    if (walkAt !== undefined && facts.at !== walkAt) return NEWER_WALK;
    if (!isFresh) return 'stale';
    if (facts.isPartial) return 'partial';
    return facts.walks < walksNeeded ? 'too_early' : undefined;
  }

  const brake = () => brakeOf(options, state, { isStopped: deps.isStopped(), alerts: deps.alerts() });

  function windowOf({ rule: { windows } }: Judged): string | undefined {
    const now = clock.now();
    if (isOpen(windows, now).open) return undefined;
    return windows.deny.some(({ from, to }) => now >= from && now < to) ? 'window_denied' : 'window_closed';
  }

  /** Why this one may not be acted upon whatever the limits say: its rule has ended, the log is not followed, no window is open. */
  function closed(judged: Judged): string | undefined {
    if (gate.modeOf(judged.rule) !== judged.mode) return 'rule_expired';
    if (judged.silence && !deps.evidence().eventsAreFresh) return 'unknown_idle_for';
    return windowOf(judged);
  }

  /** Once its intent is written it waits for nothing any more, but an approval may end before it is sent. */
  function unapproved({ action, mode }: Judged): string | undefined {
    const known = state.actions.get(action);
    return mode !== 'approve' || (known && isApproved(known, time.latest())) ? undefined : 'approval_expired';
  }

  const gate: Gate = {
    time,
    doubt,
    held: () => doubt() ?? brake(),
    stop: (judged, walkAt) => doubt(walkAt) ?? brake() ?? closed(judged) ?? unapproved(judged),
    waitOf(judged, walkAt) {
      // What was sent waited; `maySendAgain` says whether it may be sent once more.
      if (state.actions.get(judged.action)?.isOpen) return undefined;
      return waitOf(judged, gate.own(judged), walkAt, time.latest());
    },
    whyNot(judged, walkAt, runFrom) {
      const why = doubt(walkAt) ?? brake() ?? gate.waitOf(judged, walkAt) ?? closed(judged);
      return why ?? limitOf(judged, options, state, time.elapsed(), runFrom);
    },
    own(judged) {
      const known = state.actions.get(judged.action);
      return known && isAskedBy(known, askerOf(judged)) ? known : undefined;
    },
    maySendAgain(judged) {
      const own = gate.own(judged);
      return (
        own !== undefined && judged.mode !== 'plan' && (judged.mode !== 'approve' || isApproved(own, time.latest()))
      );
    },
    modeOf: rule => modeOf(rule, options.mode, time.latest()),
    left: rules => [
      { rule: undefined, left: actionsLeft(options, state, time.elapsed()) },
      ...rules.map(rule => ({ rule: rule.name, left: ruleActionsLeft(rule, state, time.elapsed()) })),
    ],
  };
  return gate;
}
