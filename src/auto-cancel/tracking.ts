import type { CallbackTracking, DlqFacts } from '../collectors/index.ts';
import type { CollectorState } from '../scheduler/board.ts';
import { type AutoCancelOptions, type AutoCancelRule, rulesFor } from './options.ts';
import type { WalkView } from './stages.ts';
import { allowedGap, walkEvery } from './stuck-when.ts';

/** Returns the rules for an account; none while auto-cancel is off. */
export function rulesOf(
  { autoCancel }: { readonly autoCancel: AutoCancelOptions },
  account: string,
): readonly AutoCancelRule[] {
  return autoCancel.mode === 'off' ? [] : rulesFor(autoCancel, account);
}

/** Returns the requirements of the rules for complete walks. */
export const trackingOf = (rules: readonly AutoCancelRule[], rescanEvery: number): CallbackTracking => ({
  walkEvery: walkEvery(rules, rescanEvery),
  maxGap: allowedGap(rules, rescanEvery),
  unreported: rules.flatMap(({ evidence, match, except }) => (evidence === 'blind' ? [{ match, except }] : [])),
});

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
