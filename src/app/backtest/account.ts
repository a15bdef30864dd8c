import { wantsUnreported } from '../../auto-cancel/judge.ts';
import { rulesFor } from '../../auto-cancel/options.ts';
import { relive } from '../../collectors/events/relive.ts';
import { type EventsFacts, schedulesOf } from '../../collectors/index.ts';
import { createRoutes } from '../../collectors/routes.ts';
import type { Config } from '../../config/schema.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { Tracer } from '../../kit/tracer.ts';
import type { Priority, Reader } from '../../upstream/api.ts';
import { type AlertBacktest, type AlertResult, createAlertBacktest } from './alerts.ts';
import { type CancelBacktest, type CancelResult, createCancelBacktest } from './callbacks.ts';
import { type DeadLetters, NO_DEAD_LETTERS, readDeadLetters } from './dead-letters.ts';
import { type Budget, type BurnResult, createErrorBudgets, MINUTE } from './error-budget.ts';
import { toldOf } from './told.ts';

type AccountSettings = Config['accounts'][number];

/** Milliseconds since the Unix epoch. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** What a range of the past says of the rules, for one account. */
export interface AccountBacktest extends Range {
  readonly account: string;
  /** Before this the log lists nothing: nothing is known of that. Undefined: it lists nothing at all. */
  readonly judgedFrom: number | undefined;
  readonly events: number;
  /** Rows that could not be read. */
  readonly rejected: number;
  /** Entries of the dead-letter queue that are listed now; undefined where no rule needs them. */
  readonly deadLetters: number | undefined;
  readonly budgets: readonly Budget[];
  readonly burns: readonly BurnResult[];
  readonly alerts: readonly AlertResult[];
  readonly autoCancel: readonly CancelResult[];
}

export interface AccountBacktestDeps {
  readonly config: Config;
  readonly settings: AccountSettings;
  readonly at: (priority: Priority) => Reader;
  readonly log: Log;
  readonly tracer: Tracer;
  readonly onProgress: (readTo: number, events: number) => void;
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

/** A clock that stands until it is set. */
function createStandingClock(): Clock & { set(at: number): void } {
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

/** Reads the dead-letter queue where a rule needs it. */
async function deadLettersFor({ config, settings, at }: AccountBacktestDeps, signal: AbortSignal) {
  const { name, collect } = settings;
  const cancelRules = rulesFor(config.autoCancel, name);
  const isProven = config.alerts.rules.some(({ when }) => toldOf(when) === 'at_least');
  if (!collect.dlq.enabled || !(isProven || cancelRules.length > 0)) return undefined;
  const keep =
    cancelRules.length === 0
      ? () => false
      : (entry: Parameters<typeof wantsUnreported>[1]) =>
          entry.callbackState !== undefined || cancelRules.some(rule => wantsUnreported(rule, entry));
  return readDeadLetters(at('background'), isProven ? collect.dlq.filters : [], keep, signal);
}

/** What judges, moment by moment. */
interface Judges {
  readonly alerts: AlertBacktest;
  readonly cancels: CancelBacktest;
  readonly budgets: ReturnType<typeof createErrorBudgets>;
}

async function createJudges(deps: AccountBacktestDeps, deadLetters: DeadLetters, clock: Clock): Promise<Judges> {
  const { config, settings, at } = deps;
  const { name, collect, objectives } = settings;
  const common = { account: name, clock, log: deps.log };
  const { rules } = config.alerts;
  const alerts = createAlertBacktest({ ...common, rules, objectives, deadLetters, seenAfter: collect.dlq.every });
  const cancels = await createCancelBacktest({
    ...common,
    tracer: deps.tracer,
    options: config.autoCancel,
    rescanEvery: collect.dlq.rescanEvery,
    entries: deadLetters.kept,
    reader: at('look'),
    alertStates: alerts.states,
  });
  return { alerts, cancels, budgets: createErrorBudgets(objectives) };
}

/** To within so many milliseconds the begin of the log is looked for. */
const CLOSE = 3_600_000;

/**
 * A full minute, an hour at most before the oldest event that is listed in a range; undefined where none is. Without it, ranges
 * that are as long as an empty past would be cut again and again where the log begins.
 */
async function findOldest(reader: Reader, { from, to }: Range, signal: AbortSignal): Promise<number | undefined> {
  async function isEmpty(end: number): Promise<boolean> {
    const pages = reader.eventPages({ fromDate: from, toDate: end }, signal);
    for (let page = await pages.next(); !page.done; page = await pages.next()) {
      if (page.value.rows.some(({ time }) => time >= from && time <= end)) return false;
    }
    return true;
  }
  if (to - from <= CLOSE || !(await isEmpty(from + CLOSE))) return from;
  if (await isEmpty(to)) return undefined;
  // Nothing is listed until `low`, and something until `high`.
  let [low, high] = [from + CLOSE, to];
  while (high - low > CLOSE) {
    const middle = Math.floor((low + high) / 2);
    if (await isEmpty(middle)) low = middle;
    else high = middle;
  }
  return Math.max(from, Math.floor(low / MINUTE) * MINUTE);
}

/**
 * Judges the rules over what the service still remembers, as an agent that begins at `from` with an empty store, and reads a log
 * that is never late. Throws UpstreamError.
 */
export async function backtestAccount(
  deps: AccountBacktestDeps,
  range: Range,
  signal: AbortSignal,
): Promise<AccountBacktest> {
  const { config, settings, at } = deps;
  const { name, collect, objectives } = settings;
  const { evaluateEvery } = config.alerts;
  const from = Math.floor(range.from / MINUTE) * MINUTE;
  const clock = createStandingClock();
  const deadLetters = await deadLettersFor(deps, signal);
  const { alerts, cancels, budgets } = await createJudges(deps, deadLetters ?? NO_DEAD_LETTERS, clock);
  const services = {
    onTimeWithin: objectives.onTimeWithin,
    routes: createRoutes(collect.routes),
    schedules: schedulesOf(config.schedules, name),
  };
  const step = config.alerts.rules.length === 0 ? MINUTE : gcd(evaluateEvery, MINUTE);
  const since = await findOldest(at('events'), { from, to: range.to }, signal);
  let nextWalk = from;
  async function judge(now: number, facts: EventsFacts | undefined, isWhole: boolean): Promise<void> {
    clock.set(now);
    if ((now - from) % evaluateEvery === 0) await alerts.evaluate(facts, isWhole);
    if (facts && now % MINUTE === 0) budgets.minute(now, facts);
    if (now < nextWalk) return;
    await cancels.walk(now, signal);
    nextWalk = now + cancels.every;
  }
  const begin = since ?? range.to;
  // Dead letters may tell of a time of which the log tells nothing any more.
  if (deadLetters) for (let now = from; now < begin; now += step) await judge(now, undefined, true);
  const { found, steps } = relive(at('events'), collect.events, services, { from: begin, to: range.to, step }, signal);
  let judgedFrom: number | undefined;
  for await (const { at: now, facts, isWhole } of steps) {
    deps.onProgress(now, found.events);
    // What the log no longer lists is not known.
    const isKnown = found.oldest !== undefined && now >= found.oldest;
    if (isKnown) judgedFrom ??= now;
    if (isKnown || deadLetters) await judge(now, isKnown ? facts : undefined, isWhole);
  }
  return {
    account: name,
    from,
    to: range.to,
    judgedFrom,
    events: found.events,
    rejected: found.rejected,
    deadLetters: deadLetters?.all.entered.length,
    budgets: budgets.budgets(),
    burns: budgets.alerts(),
    alerts: alerts.results(),
    autoCancel: await cancels.results(range.to),
  };
}
