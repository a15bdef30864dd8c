import type { CallbackOptions, DlqFacts } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import { identityOf } from '../kit/identity.ts';
import type { CallbackFacts, CallbackSighting } from '../model/callback.ts';
import type { CollectorState } from '../scheduler/board.ts';
import { allowedGap, evaluate, tracksUnreported, walkEvery } from './evaluate.ts';
import { type AutoCancelOptions, type DetectionRule, defaultRule, rulesFor } from './options.ts';
import type { WalkView } from './stages.ts';

/** Returns the rules for an account; none while auto-cancel is off. */
export function rulesOf(
  { autoCancel }: { readonly autoCancel: AutoCancelOptions },
  account: string,
): readonly DetectionRule[] {
  return autoCancel.mode === 'off' ? [] : rulesFor(autoCancel, account);
}

/** Returns the walk options that the rules require. */
export function callbackOptions(
  rules: readonly DetectionRule[],
  rescanEvery: number,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): CallbackOptions {
  const every = walkEvery(rules, rescanEvery);
  return {
    track: entry => rules.some(rule => tracksUnreported(rule, entry)),
    maxGap: allowedGap(rules, rescanEvery),
    clockOffset: () => clock.now() - clock.monotonic(),
    walkEvery: every,
  };
}

/** Returns the identity of the settings in `callbackOptions`. */
export const identityOfTracking = (rules: readonly DetectionRule[], rescanEvery: number): string =>
  identityOf([
    walkEvery(rules, rescanEvery),
    allowedGap(rules, rescanEvery),
    rules.flatMap(({ evidence, match, except }) => (evidence === 'blind' ? [[match, except]] : [])),
  ]);

/** Cache of counts, because views often count thousands of callbacks. */
const counted = new WeakMap<CallbackFacts, number>();

/** Counts callbacks that the default rule finds stuck; undefined if this cannot be determined. */
export function suspectedCallbacks(tracked: CallbackFacts | undefined): number | undefined {
  if (!tracked?.reportsStates) return undefined;
  const isStuck = (sighting: CallbackSighting) =>
    evaluate(defaultRule, { sighting, id: sighting.entry.id, lastEventAt: undefined, askedAt: tracked.at }).verdict ===
    'stuck';
  const count = counted.get(tracked) ?? tracked.sightings.filter(isStuck).length;
  counted.set(tracked, count);
  return count;
}

/** Whether the last attempt of a round succeeded and its data is neither stale nor withdrawn. */
function isFresh(state: CollectorState | undefined, round: string): boolean {
  const status = state?.status();
  const last = status?.rounds.find(each => each.round === round);
  return status !== undefined && !status.withdrawn && last?.success === true && !last.stale;
}

export interface CallbackSource {
  state(collector: string): CollectorState | undefined;
  /** Undefined before the first complete walk, and while the facts are withdrawn. */
  dlqFacts(): DlqFacts | undefined;
}

export function walkViewOf({ state, dlqFacts }: CallbackSource): WalkView {
  return {
    facts: dlqFacts()?.tracked,
    isFresh: isFresh(state('dlq'), 'full'),
    eventsAreFresh: isFresh(state('events'), 'tail'),
  };
}
