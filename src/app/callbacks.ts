import type { WalkView } from '../auto-cancel/index.ts';
import { allowedGap, judge, walkEvery, wantsUnreported } from '../auto-cancel/judge.ts';
import { defaultRule, type JudgingRule, rulesFor } from '../auto-cancel/options.ts';
import type { CallbackOptions, DlqFacts } from '../collectors/index.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Slot } from '../scheduler/board.ts';

/** Rules that are judged for an account: none while auto-cancel is off. */
export function rulesOf({ autoCancel }: Config, account: string): readonly JudgingRule[] {
  return autoCancel.mode === 'off' ? [] : rulesFor(autoCancel, account);
}

/** What the rules ask of the walks that look for failure callbacks. */
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
function isFresh(slot: Slot | undefined, round: string): boolean {
  const status = slot?.status();
  const last = status?.rounds.find(each => each.round === round);
  return status !== undefined && !status.withdrawn && last?.success === true && !last.stale;
}

/** What the board shows of failure callbacks now. */
export function walkViewOf(slot: (collector: string) => Slot | undefined): WalkView {
  const facts = slot('dlq')?.visible().now as DlqFacts | undefined;
  return {
    facts: facts?.tracked,
    isFresh: isFresh(slot('dlq'), 'full'),
    eventsAreFresh: isFresh(slot('events'), 'tail'),
  };
}
