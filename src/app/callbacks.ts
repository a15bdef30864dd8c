import type { WalkView } from '../auto-cancel/index.ts';
import { allowedGap, judge, walkEvery, wantsUnreported } from '../auto-cancel/judge.ts';
import { defaultRule, type JudgingRule, rulesFor } from '../auto-cancel/options.ts';
import type { CallbackOptions, DlqFacts } from '../collectors/index.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { CollectorState } from '../scheduler/board.ts';

/** Rules that are judged for an account: none while auto-cancel is off. */
export function rulesOf({ autoCancel }: Config, account: string): readonly JudgingRule[] {
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
    isSuspected: (sighting, at) =>
      judge(defaultRule, { sighting, id: sighting.entry.id, lastEventAt: undefined, askedAt: at }).verdict === 'stuck',
  };
}

/** Whether the last attempt of a round came to its end, and in time. */
function isFresh(state: CollectorState | undefined, round: string): boolean {
  const status = state?.status();
  const last = status?.rounds.find(each => each.round === round);
  return status !== undefined && !status.withdrawn && last?.success === true && !last.stale;
}

/** What the board shows of failure callbacks now. */
export function walkViewOf({
  state,
  dlqFacts,
}: {
  state(collector: string): CollectorState | undefined;
  dlqFacts(): DlqFacts | undefined;
}): WalkView {
  return {
    facts: dlqFacts()?.tracked,
    isFresh: isFresh(state('dlq'), 'full'),
    eventsAreFresh: isFresh(state('events'), 'tail'),
  };
}
