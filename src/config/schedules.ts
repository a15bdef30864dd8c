import { type Schedule, schedulesOf } from '../collectors/index.ts';
import { createOccurrences } from '../kit/cron.ts';
import { formatDuration } from '../kit/duration.ts';
import { checkNames, type Path, type Reporter } from './errors.ts';
import type { Config } from './schema.ts';

/** Maximum number of expected starts that are open concurrently. */
const MAX_OPEN = 1000;
/** A fixed day, so that the result does not depend on the date. */
const FIRST_DAY = Date.UTC(2026, 0, 1);
const SAMPLED_STARTS = 30;

/** Returns the shortest of the sampled intervals (ms). */
function shortestInterval({ cron, tz }: Schedule): number {
  const after = createOccurrences(cron, tz);
  let shortest = Number.POSITIVE_INFINITY;
  let last = after(FIRST_DAY)?.at;
  for (let seen = 1; seen < SAMPLED_STARTS && last !== undefined; seen += 1) {
    const next = after(last)?.at;
    if (next !== undefined) shortest = Math.min(shortest, next - last);
    last = next;
  }
  return shortest;
}

function checkTimes(schedule: Schedule, path: Path, report: Reporter): void {
  const { grace, endsWithin } = schedule;
  const interval = shortestInterval(schedule);
  if ((grace + endsWithin) / interval > MAX_OPEN) {
    const message = `plus grace must be at most ${formatDuration(MAX_OPEN * interval)}, the time of ${MAX_OPEN} expected starts`;
    report.error([...path, 'endsWithin'], message);
  }
}

function checkRoute(schedule: Schedule, accounts: Config['accounts'], path: Path, report: Reporter): void {
  const { route } = schedule.match;
  if (route === undefined) return;
  const without = accounts.find(
    ({ name, collect }) => schedulesOf([schedule], name).length > 0 && !collect.routes.includes(route),
  );
  if (without) report.error(path, `is not one of collect.routes of the account ${without.name}`);
}

/** Reports schedules that cannot be evaluated. */
export function checkSchedules({ schedules, accounts }: Config, report: Reporter): void {
  const names = accounts.map(({ name }) => name);
  for (const [index, schedule] of schedules.entries()) {
    const path = ['schedules', index];
    checkTimes(schedule, path, report);
    checkNames('account', schedule.accounts ?? [], names, [...path, 'accounts'], report);
    checkRoute(schedule, accounts, [...path, 'match', 'route'], report);
    const withoutEvents = accounts.find(
      ({ name, collect }) => !collect.events.enabled && schedulesOf([schedule], name).length > 0,
    );
    if (withoutEvents) {
      const message = `needs collect.events, which is not enabled for the account ${withoutEvents.name}`;
      report.error(schedule.accounts === null ? path : [...path, 'accounts'], message);
    }
  }
}
