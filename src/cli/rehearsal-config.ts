import { stuckAfter } from '../auto-cancel/options.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import { Secret } from '../kit/secret.ts';

/** Shortest real time between reads and between alert evaluations (ms). */
const [READ_EVERY, EVALUATE_EVERY] = [250, 100];

const DAY = 86_400_000;

/** Returns the retention of the emulated service (ms): as configured, or longer than any rule waits. */
export function dlqRetention({ accounts, autoCancel }: Config): number {
  const configured = accounts.flatMap(({ retention }) => retention.dlq ?? []);
  if (configured.length > 0) return Math.max(...configured);
  return Math.max(3 * DAY, ...autoCancel.rules.map(rule => 2 * stuckAfter(rule)));
}

/** Speed while rules act: a cancel must be sent within 30 s of its intent, which is half a second of real time. */
export const ACTING_SPEED = 60;

/** How long `ACTING_SPEED` starts before a rule may act, and how long it lasts (ms). */
const [ACTING_BEFORE, ACTING_FOR] = [60_000, 6 * 3_600_000];

/** Returns the periods at `ACTING_SPEED`, one per rule (ms since the start). */
function actingTimes({ autoCancel }: Config): readonly [from: number, until: number][] {
  return autoCancel.rules.map(rule => {
    const from = stuckAfter(rule) + rule.grace - ACTING_BEFORE;
    return [from, from + ACTING_FOR];
  });
}

/** Returns a clock that is `speed` times as fast, but slower while rules may act. */
export function rehearsalClock(clock: Clock, speed: number, config: Config): Clock {
  const times = actingTimes(config);
  const edges = [...new Set([0, ...times.flat()])].filter(edge => edge >= 0).sort((a, b) => a - b);
  let real = 0;
  /** Periods of constant speed. */
  const parts = edges.map((from, index) => {
    const isActing = times.some(([start, until]) => start <= from && from < until);
    const part = { from, real, speed: isActing ? Math.min(speed, ACTING_SPEED) : speed };
    real += ((edges[index + 1] ?? from) - from) / part.speed;
    return part;
  });
  const [started, startedAt] = [clock.monotonic(), clock.now()];
  const partAt = (key: 'from' | 'real', at: number) => parts.findLast(part => part[key] <= at) ?? parts[0];
  function read(): number {
    const at = clock.monotonic() - started;
    const part = partAt('real', at);
    return part ? part.from + (at - part.real) * part.speed : 0;
  }
  let last: number | undefined;
  /** Returns the elapsed time. Constant during synchronous code: a delay between two readings would look like a clock step. */
  function elapsed(): number {
    if (last === undefined) {
      last = read();
      queueMicrotask(() => {
        last = undefined;
      });
    }
    return last;
  }
  function realAt(at: number): number {
    const part = partAt('from', at);
    return part ? part.real + (at - part.from) / part.speed : 0;
  }
  return {
    now: () => Math.floor(startedAt + elapsed()),
    monotonic: () => started + elapsed(),
    sleep(ms, signal) {
      const from = elapsed();
      return clock.sleep(realAt(from + ms) - realAt(from), signal);
    },
  };
}

/** Lengthens the intervals of `collect`, to leave real time between two reads. */
function slower(collect: Config['collect'], shortest: number): Config['collect'] {
  const entries = Object.entries(collect).map(([section, options]) => [
    section,
    Array.isArray(options)
      ? options
      : Object.fromEntries(
          Object.entries(options).map(([key, value]) => [
            key,
            /every$/i.test(key) && typeof value === 'number' ? Math.max(value, shortest) : value,
          ]),
        ),
  ]);
  return Object.fromEntries(entries) as Config['collect'];
}

/** Relaxes the staleness limits: at high speed, a round on a busy machine takes several intervals. */
function slowerStaleness(given: Config['staleness'], speed: number): Config['staleness'] {
  const markAfter = Math.max(given.markAfter, Math.min(12, Math.ceil(speed / 5)));
  const withdrawAfter = Math.max(given.withdrawAfter, 2 * markAfter);
  const withdrawAtMost = Math.max(given.withdrawAtMost, withdrawAfter * READ_EVERY * speed);
  return { markAfter, withdrawAfter, withdrawAtMost };
}

/** Returns a `maxGap` of at least ten real seconds (ms), so that a busy machine does not end episodes. */
const gapOf = ({ stuckWhen }: Config['autoCancel']['rules'][number], speed: number) =>
  Math.max(stuckWhen.maxGap ?? 0, 10_000 * speed);

/**
 * Returns the configuration of a rehearsal: the emulator's `base` and some sections of the given one. `folder`: for the stop
 * file. `receiver`: URL for notifications.
 */
export function rehearsalConfig(
  given: Config,
  base: Config,
  { speed, folder, receiver }: { readonly speed: number; readonly folder: string; readonly receiver: string },
): Config {
  const { alerts, autoCancel } = given;
  const shortest = READ_EVERY * speed;
  return {
    ...base,
    accounts: base.accounts.map((account, index) => {
      const { collect, labels, retention, limits, objectives } = given.accounts[index] as Config['accounts'][number];
      return { ...account, collect: slower(collect, shortest), labels, retention, limits, objectives };
    }),
    collect: slower(given.collect, shortest),
    objectives: given.objectives,
    schedules: given.schedules,
    staleness: slowerStaleness(given.staleness, speed),
    alerts: {
      ...alerts,
      evaluateEvery: Math.max(alerts.evaluateEvery, EVALUATE_EVERY * speed),
      notifiers: alerts.notifiers.map(({ name, webhook }) => ({
        name,
        webhook: {
          url: { literal: new Secret(`${receiver}/${name}`) },
          secret: null,
          format: 'alertmanager' as const,
          groupBy: webhook?.groupBy ?? ['alertname', 'account'],
          groupWait: webhook?.groupWait ?? 10_000,
          // Do not repeat notifications: each printed line is a change.
          repeatEvery: 365 * DAY,
        },
      })),
    },
    autoCancel: {
      ...autoCancel,
      stopFile: `${folder}/STOP`,
      rules: autoCancel.rules.map(rule => ({ ...rule, stuckWhen: { ...rule.stuckWhen, maxGap: gapOf(rule, speed) } })),
    },
  };
}
