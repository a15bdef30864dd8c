import { type AlertState, advance } from '../../alerts/state.ts';
import type { EventsFacts } from '../../collectors/index.ts';
import { parseDuration } from '../../kit/duration.ts';
import type { OBJECTIVES, Objectives } from '../../metrics/objectives.ts';
import {
  BAD,
  BURN_ALERTS,
  type Burn,
  type BurnAlert,
  type BurnRate,
  COUNTED_WINDOWS,
  type Count,
  FEWEST_BAD,
  MONTH,
  MOST_BAD,
  WINDOW_SECONDS,
  type Window,
} from '../../metrics/thresholds.ts';
import { createFirings, type Firing } from './firings.ts';

export const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

type Objective = (typeof OBJECTIVES)[number];

/** What one hour did to an error budget. */
export interface BudgetHour {
  /** Its begin, milliseconds since the Unix epoch. */
  readonly from: number;
  readonly bad: number;
  readonly finished: number;
  /** Share of the budget of the whole range that it burnt; 1 is all of it. */
  readonly burnt: number;
}

/** What became of an error budget: that which the messages of the range, and no others, give. */
export interface Budget {
  readonly objective: Objective;
  /** Share of messages that are to be good. */
  readonly target: number;
  readonly finished: number;
  readonly bad: number;
  /** Bad messages that the objective allows of those that finished. */
  readonly allowed: number;
  /** Share of it that is left at the end; below 0 the objective was missed. Undefined where no message finished. */
  readonly left: number | undefined;
  /** The hour that burnt most; undefined where none burnt any. */
  readonly worst: BudgetHour | undefined;
}

export interface BurnResult {
  readonly name: keyof typeof BURN_ALERTS;
  readonly objective: Objective;
  readonly firings: readonly Firing[];
}

/** Judges the shipped alerts on error budgets, minute by minute, as Prometheus does by the generated rules. */
export interface ErrorBudgets {
  /** To be told of each minute, in order: what had been counted until then. */
  minute(at: number, facts: EventsFacts): void;
  alerts(): readonly BurnResult[];
  budgets(): readonly Budget[];
}

const BURNS = Object.entries(BURN_ALERTS) as [keyof typeof BURN_ALERTS, BurnAlert][];
const COUNTS: readonly Count[] = ['failed', 'overdue', 'finished'];
const LONG: readonly Window[] = COUNTED_WINDOWS.long;

function totalsOf({ destinations, log }: EventsFacts): Record<Count, number> {
  let [failed, delivered] = [0, 0];
  for (const { finished } of destinations.values()) {
    failed += finished.failed;
    delivered += finished.delivered;
  }
  return { failed, overdue: log.overdue, finished: failed + delivered };
}

/** Share of bad messages above which a budget burns too fast: what the records of burn limits say. */
export const burnLimit = (times: BurnRate, share: number, window: number) =>
  Math.min(Math.max((times * window) / 1000 / MONTH, 1) * share, MOST_BAD);

/** `longEvery`: minutes between two evaluations of long windows, where they are not evaluated as the shipped rules are. */
export function createErrorBudgets(
  { delivered, onTime, window }: Objectives,
  longEvery: number = COUNTED_WINDOWS.longEvery,
): ErrorBudgets {
  const targets: Readonly<Record<Objective, number>> = { delivered, on_time: onTime };
  /** Totals of each minute. */
  const counted: Record<Count, number[]> = { failed: [], overdue: [], finished: [] };
  let first = 0;
  let minutes = 0;
  const alerts = BURNS.map(([name, alert]) => ({
    name,
    alert,
    durations: { for: parseDuration(alert.for) ?? 0, keepFiringFor: parseDuration(alert.keepFiringFor) ?? 0 },
    state: undefined as AlertState | undefined,
    firings: createFirings(),
  }));

  /** How much was counted in a window that ends with the latest minute, or where it is long, with that of its last evaluation. */
  function increase(count: Count, window: Window): number {
    const late = LONG.includes(window) ? Math.floor((first + (minutes - 1) * MINUTE) / MINUTE) % longEvery : 0;
    const last = minutes - 1 - late;
    if (last < 0) return 0;
    const begin = Math.max(0, last - WINDOW_SECONDS[window] / 60);
    return (counted[count][last] ?? 0) - (counted[count][begin] ?? 0);
  }

  /** Of no messages there is no share, and it is above nothing. */
  const ratio = (objective: Objective, window: Window) =>
    Math.min(increase(BAD[objective], window) / increase('finished', window), 1);

  function burns(objective: Objective, { times, long, short }: Burn): number | undefined {
    const most = burnLimit(times, 1 - targets[objective], window);
    const value = ratio(objective, long);
    const isBurning = value > most && ratio(objective, short) > most;
    return isBurning && increase(BAD[objective], long) >= FEWEST_BAD ? value : undefined;
  }

  function budgetOf(objective: Objective): Budget {
    const [bad, finished] = [counted[BAD[objective]], counted.finished];
    const share = 1 - targets[objective];
    const total = { bad: bad.at(-1) ?? 0, finished: finished.at(-1) ?? 0 };
    const allowed = total.finished * share;
    let worst: BudgetHour | undefined;
    for (let begin = 0; begin < minutes - 1; ) {
      // Hours of the clock: the first and the last may be shorter.
      const at = first + begin * MINUTE;
      const end = Math.min(minutes - 1, begin + (HOUR - (at % HOUR)) / MINUTE);
      const burnt = (bad[end] ?? 0) - (bad[begin] ?? 0);
      if (burnt > (worst?.bad ?? 0)) {
        const ended = (finished[end] ?? 0) - (finished[begin] ?? 0);
        worst = {
          from: at,
          bad: burnt,
          finished: ended,
          burnt: allowed === 0 ? Number.POSITIVE_INFINITY : burnt / allowed,
        };
      }
      begin = end;
    }
    const left = total.finished === 0 ? undefined : 1 - total.bad / allowed;
    return { objective, target: targets[objective], ...total, allowed, left, worst };
  }

  return {
    minute(at, facts) {
      if (minutes === 0) first = at;
      const totals = totalsOf(facts);
      for (const count of COUNTS) counted[count].push(totals[count]);
      minutes += 1;
      for (const one of alerts) {
        const { objective, burns: pairs } = one.alert;
        const value = pairs.map(pair => burns(objective, pair)).find(value => value !== undefined);
        const evaluation = { holds: value !== undefined, now: at, monotonic: at };
        one.state = advance(one.state, one.durations, evaluation);
        one.firings.note('', one.state, value);
      }
    },
    alerts: () =>
      alerts.map(({ name, alert: { objective }, firings }) => ({ name, objective, firings: firings.all() })),
    budgets: () => (['delivered', 'on_time'] as const).map(budgetOf),
  };
}
