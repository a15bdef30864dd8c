import { isOpen } from '../kit/cron.ts';
import { DAY, HOUR } from '../kit/duration.ts';
import type { Breaker, JournalTarget } from '../model/journal.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import {
  type Action,
  attemptsThatCount,
  episodeKey,
  type JournalState,
  type LimitUse,
  urlOf,
} from './journal-state.ts';
import type { AutoCancelOptions, AutoCancelRule } from './options.ts';

/** Returns why the rule's windows forbid acting now, or undefined. */
export function windowReason({ allow, deny }: AutoCancelRule['windows'], at: number) {
  if (deny.some(({ from, to }) => at >= from && at < to)) return 'window_denied';
  if (allow.length === 0) return undefined;
  return allow.some(window => isOpen(window, at)) ? undefined : 'window_closed';
}

/** Returns why the number of candidates is implausible, or undefined. `population`: number of matching callbacks. */
export function candidateExcess(
  { max, percent, minPopulation }: AutoCancelOptions['breaker']['candidates'],
  candidates: number,
  population: number,
): string | undefined {
  if (candidates > max) return `${candidates} callbacks seem stuck, more than ${max}`;
  if (population < minPopulation || candidates * 100 <= percent * population) return undefined;
  return `${candidates} of ${population} callbacks seem stuck, more than ${percent} %`;
}

/** Returns the breaker to open, with the reason; undefined if none. */
export function breakerToOpen(
  { errors, lostRaces }: AutoCancelOptions['breaker'],
  state: JournalState,
  now: number,
): { readonly breaker: Breaker; readonly reason: string } | undefined {
  // Include later times: setting the clock back must not discard errors.
  const failed = state.errors.filter(at => at > now - errors.within).length;
  if (failed >= errors.max && !state.breakers.has('errors')) {
    return { breaker: 'errors', reason: `${failed} cancels failed within ${errors.within / 60_000} minutes` };
  }
  const lost = state.races.slice(-lostRaces.ofLast).filter(isLost => isLost).length;
  if (lost > 0 && lost * 100 >= lostRaces.percent * lostRaces.ofLast && !state.breakers.has('lost_races')) {
    return {
      breaker: 'lost_races',
      reason: `${lost} of the last ${lostRaces.ofLast} cancels came too late: the callbacks were not stuck`,
    };
  }
  return undefined;
}

const countSince = (uses: readonly LimitUse[], from: number) => uses.filter(({ at }) => at > from).length;

export function actionsLeft(options: AutoCancelOptions, state: JournalState, now: number): number {
  const uses = state.uses.filter(({ isPlan }) => !isPlan);
  const { perHour, perDay } = options.limits;
  return Math.max(0, Math.min(perHour - countSince(uses, now - HOUR), perDay - countSince(uses, now - DAY)));
}

export function ruleActionsLeft({ name, limits }: EvaluatedCallback['rule'], state: JournalState, now: number): number {
  const uses = state.uses.filter(use => !use.isPlan && use.rule === name);
  return Math.max(0, limits.perHour - countSince(uses, now - HOUR));
}

const isSameEpisode = ({ target: other }: Action, { dlqId, messageId, episode }: JournalTarget) =>
  other.dlqId === dlqId && other.messageId === messageId && other.episode === episode;

/** Returns why an earlier cancel makes a blind rule skip an entry, or undefined. */
export function blindSkipReason(
  { rule, target }: Pick<EvaluatedCallback, 'rule' | 'target'>,
  state: JournalState,
  now: number,
): 'not_in_progress_lately' | 'sent_before' | undefined {
  const last = rule.evidence === 'blind' ? state.blindEnds.get(target.id) : undefined;
  if (!last) return undefined;
  if (last.outcome !== 'not_in_progress') return 'sent_before';
  return last.at > now - rule.recheckAfter ? 'not_in_progress_lately' : undefined;
}

/** Delay after the second 429 response (ms). Doubles with each further 429 response, up to a day. */
const LIMITED_WAIT = 10 * 60_000;

function isLimitedLately({ attempts }: Action, now: number): boolean {
  const last = attempts.at(-1);
  const times = attempts.filter(({ response }) => response?.kind === 'limited').length;
  if (last?.response?.kind !== 'limited' || times < 2) return false;
  return last.at > now - Math.min(DAY, LIMITED_WAIT * 2 ** (times - 2));
}

/** Returns why earlier cancels forbid this one, or undefined. */
export function earlierCancelReason(evaluated: EvaluatedCallback, state: JournalState, now: number) {
  const { target, action } = evaluated;
  const others = [...state.actions.values()].filter(({ id }) => id !== action);
  const sender = state.senders.get(episodeKey(target)) ?? action;
  if (others.some(other => other.isOpen && other.target.id === target.id)) return 'unresolved';
  if (sender !== action) return 'sent_before';
  if (others.some(other => isSameEpisode(other, target) && attemptsThatCount(other) > 0)) return 'sent_before';
  const blindReason = blindSkipReason(evaluated, state, now);
  if (blindReason) return blindReason;
  const known = state.actions.get(action);
  return known && isLimitedLately(known, now) ? 'rate_limited' : undefined;
}

/** Returns the exhausted limit, if any. Plans and cancels count separately. `usesBefore`: length of `uses` before this run. */
export function exhaustedLimit(
  { rule, mode, target }: EvaluatedCallback,
  { limits }: AutoCancelOptions,
  state: JournalState,
  now: number,
  usesBefore: number,
): 'cooldown' | 'limit_run' | 'limit_hour' | 'limit_day' | undefined {
  const isPlan = mode === 'plan';
  const uses = state.uses.filter(use => use.isPlan === isPlan);
  const ofRule = uses.filter(use => use.rule === rule.name);
  const url = urlOf(target);
  if (uses.some(use => use.url === url && use.at > now - rule.cooldown.perUrl)) return 'cooldown';
  const ofRun = state.uses.slice(usesBefore).filter(use => use.isPlan === isPlan);
  const ofRunAndRule = ofRun.filter(use => use.rule === rule.name);
  if (ofRun.length >= limits.perRun || ofRunAndRule.length >= rule.limits.perRun) return 'limit_run';
  if (countSince(ofRule, now - HOUR) >= rule.limits.perHour) return 'limit_hour';
  if (countSince(uses, now - HOUR) >= limits.perHour) return 'limit_hour';
  return countSince(uses, now - DAY) >= limits.perDay ? 'limit_day' : undefined;
}
