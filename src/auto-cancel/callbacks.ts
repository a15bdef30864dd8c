import type { CallbackOptions, DlqFacts } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import type { CallbackFacts, CallbackSighting } from '../model/callback.ts';
import type { CollectorState } from '../scheduler/board.ts';
import { allowedGap, judge, walkEvery, wantsUnreported } from './judge.ts';
import { type AutoCancelOptions, defaultRule, type JudgingRule, rulesFor } from './options.ts';
import type { WalkView } from './stages.ts';

/** Rules that are judged for an account: none while auto-cancel is off. */
export function rulesOf(
  { autoCancel }: { readonly autoCancel: AutoCancelOptions },
  account: string,
): readonly JudgingRule[] {
  return autoCancel.mode === 'off' ? [] : rulesFor(autoCancel, account);
}

/** What the rules require of the walks that track failure callbacks. */
export function callbackOptions(
  rules: readonly JudgingRule[],
  rescanEvery: number,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): CallbackOptions {
  const every = walkEvery(rules, rescanEvery);
  return {
    track: entry => rules.some(rule => wantsUnreported(rule, entry)),
    maxGap: allowedGap(rules, rescanEvery),
    clockOffset: () => clock.now() - clock.monotonic(),
    walkEvery: every,
  };
}

/** Tracked callbacks may be thousands, and views count them often. */
const counted = new WeakMap<CallbackFacts, number>();

/**
 * Counts the failure callbacks that seem stuck by the default evidence at the time of the walk. Returns undefined before the first
 * complete walk and if the service reports no callback states.
 */
export function suspectedCallbacks(tracked: CallbackFacts | undefined): number | undefined {
  if (!tracked?.reportsStates) return undefined;
  const isStuck = (sighting: CallbackSighting) =>
    judge(defaultRule, { sighting, id: sighting.entry.id, lastEventAt: undefined, askedAt: tracked.at }).verdict ===
    'stuck';
  const count = counted.get(tracked) ?? tracked.sightings.filter(isStuck).length;
  counted.set(tracked, count);
  return count;
}

/** Whether the last attempt of a round came to its end, and in time. */
function isFresh(state: CollectorState | undefined, round: string): boolean {
  const status = state?.status();
  const last = status?.rounds.find(each => each.round === round);
  return status !== undefined && !status.withdrawn && last?.success === true && !last.stale;
}

/** Facts of an account about failure callbacks. */
export interface Walked {
  state(collector: string): CollectorState | undefined;
  /** Undefined before the first complete walk, and while the facts are withdrawn. */
  dlqFacts(): DlqFacts | undefined;
}

/** What the board shows of failure callbacks now. */
export function walkViewOf({ state, dlqFacts }: Walked): WalkView {
  return {
    facts: dlqFacts()?.tracked,
    isFresh: isFresh(state('dlq'), 'full'),
    eventsAreFresh: isFresh(state('events'), 'tail'),
  };
}
