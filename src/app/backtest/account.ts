import { wantsUnreported } from '../../auto-cancel/judge.ts';
import { rulesFor } from '../../auto-cancel/options.ts';
import { findOldest } from '../../collectors/events/log-begin.ts';
import { readLog } from '../../collectors/events/relive.ts';
import { schedulesOf } from '../../collectors/index.ts';
import { createRoutes } from '../../collectors/routes.ts';
import type { Config } from '../../config/schema.ts';
import type { Log } from '../../kit/log.ts';
import type { Tracer } from '../../kit/tracer.ts';
import type { Priority, Reader } from '../../upstream/api.ts';
import type { AlertResult } from './alerts.ts';
import { type CancelResult, createCancelBacktest } from './callbacks.ts';
import { type DeadLetters, NO_DEAD_LETTERS, readDeadLetters } from './dead-letters.ts';
import { MINUTE } from './error-budget.ts';
import { createStandingClock, type Judged, type Judging, type JudgingPlan } from './judging.ts';
import { toldOf } from './told.ts';

type AccountSettings = Config['accounts'][number];

/** Milliseconds since the Unix epoch. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** What a range of the past says of the rules, for one account. */
export interface AccountBacktest extends Range, Judged {
  readonly account: string;
  readonly events: number;
  /** Rows that could not be read. */
  readonly rejected: number;
  /** Entries of the dead-letter queue that are listed now; undefined where no rule needs them. */
  readonly deadLetters: number | undefined;
  readonly autoCancel: readonly CancelResult[];
  /** Dead letters that rules of auto-cancel may be about. Where some were left out, what these count is the least. */
  readonly autoCancelEntries: { readonly judged: number; readonly leftOut: number };
}

export interface AccountBacktestDeps {
  readonly config: Config;
  readonly settings: AccountSettings;
  readonly at: (priority: Priority) => Reader;
  readonly log: Log;
  readonly tracer: Tracer;
  readonly judge: (plan: JudgingPlan) => Judging;
  readonly onProgress: (readTo: number, events: number) => void;
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

/** What is firing, or of unknown state, by name, as it was at a time. */
function statesAt(alerts: readonly AlertResult[], at: number): ReadonlyMap<string, 'firing' | 'unknown'> {
  return new Map(
    alerts.flatMap(({ name, firings, because }): [string, 'firing' | 'unknown'][] => {
      const isFiring = firings.some(({ from, to = Number.POSITIVE_INFINITY }) => from <= at && at < to);
      if (isFiring) return [[name, 'firing']];
      return because === undefined ? [] : [[name, 'unknown']];
    }),
  );
}

/** Judges the rules of auto-cancel at each walk that an agent would have made. */
async function backtestCancels(
  { config, settings, at, log, tracer }: AccountBacktestDeps,
  entries: DeadLetters['kept'],
  alerts: readonly AlertResult[],
  { from, to }: Range,
  signal: AbortSignal,
): Promise<readonly CancelResult[]> {
  const clock = createStandingClock();
  clock.set(from);
  const cancels = await createCancelBacktest({
    account: settings.name,
    options: config.autoCancel,
    rescanEvery: settings.collect.dlq.rescanEvery,
    entries,
    reader: at('look'),
    alertStates: () => statesAt(alerts, clock.now()),
    clock,
    log,
    tracer,
  });
  for (let now = from; now <= to; now += cancels.every) {
    clock.set(now);
    await cancels.walk(now, signal);
  }
  return cancels.results(to);
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
  const { config, settings, at, judge } = deps;
  const { name: account, collect, objectives } = settings;
  const { to } = range;
  const from = Math.floor(range.from / MINUTE) * MINUTE;
  const found = await deadLettersFor(deps, signal);
  const begin = (await findOldest(at('events'), { from, to }, signal)) ?? to;
  const { kept = [], leftOut = 0, ...deadLetters } = found ?? {};
  const schedules = schedulesOf(config.schedules, account);
  const judging = judge({
    account,
    from,
    to,
    begin,
    evaluateEvery: config.alerts.evaluateEvery,
    rules: config.alerts.rules,
    objectives,
    events: collect.events,
    routes: collect.routes,
    schedules,
    deadLetters: found && { ...NO_DEAD_LETTERS, ...deadLetters },
    seenAfter: collect.dlq.every,
  });
  let [events, rejected] = [0, 0];
  try {
    const services = { routes: createRoutes(collect.routes), schedules };
    for await (const part of readLog(at('events'), collect.events, services, { from: begin, to }, signal)) {
      events += part.events.length;
      rejected += part.rejected;
      await judging.take(part);
      deps.onProgress(part.readTo, events);
    }
    const judged = await judging.end();
    const autoCancel = await backtestCancels(deps, kept, judged.alerts, { from, to }, signal);
    const listed = found && found.all.entered.length + found.untold;
    return {
      account,
      from,
      to,
      events,
      rejected,
      deadLetters: listed,
      ...judged,
      autoCancel,
      autoCancelEntries: { judged: kept.length, leftOut },
    };
  } finally {
    await judging.close();
  }
}
