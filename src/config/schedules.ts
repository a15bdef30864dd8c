import { type Schedule, schedulesOf } from '../collectors/index.ts';
import { createOccurrences } from '../kit/cron.ts';
import { formatDuration } from '../kit/duration.ts';
import { checkNames, type Known, type Tell } from './faults.ts';
import type { Config } from './schema.ts';

/** Starts that may be expected, and not judged, at the same time. */
const MOST_OPEN = 1000;
/** Any day will do, and always the same; so many of its starts show how close they come. */
const FIRST = Date.UTC(2026, 0, 1);
const LOOKED_AT = 30;

/** The shortest time between two starts, milliseconds, as far as it shows. */
function shortestInterval({ cron, tz }: Schedule): number {
  const after = createOccurrences(cron, tz);
  let shortest = Number.POSITIVE_INFINITY;
  let last = after(FIRST)?.at;
  for (let seen = 1; seen < LOOKED_AT && last !== undefined; seen += 1) {
    const next = after(last)?.at;
    if (next !== undefined) shortest = Math.min(shortest, next - last);
    last = next;
  }
  return shortest;
}

function checkTimes(schedule: Schedule, path: readonly PropertyKey[], tell: Tell): void {
  const { grace, endsWithin } = schedule;
  const interval = shortestInterval(schedule);
  if ((grace + endsWithin) / interval > MOST_OPEN) {
    const message = `must end, with grace, before ${MOST_OPEN} more starts are expected: within ${formatDuration(MOST_OPEN * interval)}`;
    tell.fault([...path, 'endsWithin'], message);
  } else if (grace >= interval) {
    const isGiven = tell.isGiven([...path, 'grace']);
    const message = `is ${formatDuration(grace)}${isGiven ? '' : ' by default'}, but starts are expected every ${formatDuration(interval)}: one start counts for several, and a single missed one is not seen`;
    tell.warn([...path, isGiven ? 'grace' : 'cron'], isGiven ? message : `grace ${message}`);
  }
}

/** No message is of a route that is not one. */
function checkRoute(schedule: Schedule, accounts: Config['accounts'], path: readonly PropertyKey[], tell: Tell): void {
  const { route } = schedule.match;
  if (route === undefined) return;
  const without = accounts.find(
    ({ name, collect }) => schedulesOf([schedule], name).length > 0 && !collect.routes.includes(route),
  );
  if (without) tell.fault(path, `is not one of collect.routes of the account ${without.name}`);
}

/** Schedules that name what is not there, or can't be judged. */
export function checkSchedules({ schedules, accounts }: Config, known: Known, tell: Tell): void {
  for (const [index, schedule] of schedules.entries()) {
    const path = ['schedules', index];
    checkTimes(schedule, path, tell);
    checkNames('account', schedule.accounts ?? [], known.accounts, [...path, 'accounts'], tell);
    checkRoute(schedule, accounts, [...path, 'match', 'route'], tell);
    // Which accounts are meant is not known.
    if (schedule.accounts === null && tell.isGiven([...path, 'accounts'])) continue;
    const deaf = accounts.find(
      ({ name, collect }) => !collect.events.enabled && schedulesOf([schedule], name).length > 0,
    );
    if (deaf) {
      const message = `needs collect.events, which is not enabled for the account ${deaf.name}`;
      tell.fault(schedule.accounts === null ? path : [...path, 'accounts'], message);
    }
  }
}
