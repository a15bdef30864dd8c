import type { AlertRule } from '../../alerts/options.ts';
import type { EventsOptions } from '../../collectors/events/event-options.ts';
import { createReliving, type LogPart } from '../../collectors/events/relive.ts';
import type { EventsFacts, Schedule } from '../../collectors/index.ts';
import { createRoutes } from '../../collectors/routes.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { Objectives } from '../../metrics/objectives.ts';
import { type AlertResult, createAlertBacktest } from './alerts.ts';
import { type DeadLetters, NO_DEAD_LETTERS } from './dead-letters.ts';
import { type Budget, type BurnResult, createErrorBudgets, MINUTE } from './error-budget.ts';

/** What is to be judged of one account: plain data, for it may go to another thread. Times: milliseconds since the Unix epoch. */
export interface JudgingPlan {
  readonly account: string;
  readonly from: number;
  readonly to: number;
  /** Nothing older is in the log. */
  readonly begin: number;
  /** Milliseconds between two evaluations of alerts. */
  readonly evaluateEvery: number;
  readonly rules: readonly AlertRule[];
  readonly objectives: Objectives;
  readonly events: EventsOptions;
  readonly routes: Parameters<typeof createRoutes>[0];
  readonly schedules: readonly Schedule[];
  /** Undefined where no rule needs them. */
  readonly deadLetters: Omit<DeadLetters, 'kept' | 'leftOut'> | undefined;
  /** Milliseconds by which a round may see an entry of the dead-letter queue later than it came. */
  readonly seenAfter: number;
}

/** What came of it. */
export interface Judged {
  /** Before this the log lists nothing: nothing is known of that. Undefined: it lists nothing at all. */
  readonly judgedFrom: number | undefined;
  readonly budgets: readonly Budget[];
  readonly burns: readonly BurnResult[];
  readonly alerts: readonly AlertResult[];
}

/** Judges as it is told of the log, part by part, in order. */
export interface Judging {
  /** Waits while it has enough to do. */
  take(part: LogPart): Promise<void>;
  end(): Promise<Judged>;
  close(): Promise<void>;
}

const nothing = () => undefined;
const silent: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => silent };

/** A clock that stands until it is set. */
export function createStandingClock(): Clock & { set(at: number): void } {
  let now = 0;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: () => Promise.resolve(),
    set(at) {
      now = at;
    },
  };
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

export function createJudging(plan: JudgingPlan): Judging {
  const { account, from, to, begin, evaluateEvery, rules, objectives, deadLetters, seenAfter } = plan;
  const clock = createStandingClock();
  const proven = deadLetters ? { ...deadLetters, kept: [], leftOut: 0 } : NO_DEAD_LETTERS;
  const alerts = createAlertBacktest({
    account,
    rules,
    objectives,
    deadLetters: proven,
    seenAfter,
    clock,
    log: silent,
  });
  const budgets = createErrorBudgets(objectives);
  const step = rules.length === 0 ? MINUTE : gcd(evaluateEvery, MINUTE);
  const { onTimeWithin } = objectives;
  const services = { onTimeWithin, routes: createRoutes(plan.routes), schedules: plan.schedules };
  const goOn = createReliving(plan.events, services, { from: begin, to, step });
  let hasBegun = false;
  let oldest = Number.POSITIVE_INFINITY;
  let judgedFrom: number | undefined;

  async function judge(now: number, facts: EventsFacts | undefined, isWhole: boolean): Promise<void> {
    clock.set(now);
    if ((now - from) % evaluateEvery === 0) await alerts.evaluate(facts, isWhole);
    if (facts && now % MINUTE === 0) budgets.minute(now, facts);
  }

  /** Dead letters may tell of a time of which the log tells nothing any more. */
  async function judgeBefore(): Promise<void> {
    if (!deadLetters || hasBegun) return;
    hasBegun = true;
    for (let now = from; now < begin; now += step) await judge(now, undefined, true);
  }

  return {
    async take(part) {
      await judgeBefore();
      for (const { time } of part.events) oldest = Math.min(oldest, time);
      for (const { at, facts, isWhole } of goOn(part)) {
        const isKnown = at >= oldest;
        if (isKnown) judgedFrom ??= at;
        if (isKnown || deadLetters) await judge(at, isKnown ? facts : undefined, isWhole);
      }
    },
    async end() {
      await judgeBefore();
      return { judgedFrom, budgets: budgets.budgets(), burns: budgets.alerts(), alerts: alerts.results() };
    },
    close: () => Promise.resolve(),
  };
}
