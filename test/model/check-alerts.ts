/** Checks that the data that was read contains a reason for each resolved alert. Missing data does not count as a reason. */

import { type NumberWorld, walksOf } from './check-numbers.ts';
import { isClean, type Round } from './record.ts';
import { isListed, sizeAt } from './truth.ts';

/** Returns violations. `before`: the previously firing alerts and when they started to fire (ms since the world's start). */
export function checkAlerts(
  world: NumberWorld,
  before: ReadonlyMap<string, number>,
  after: ReadonlySet<string>,
): string[] {
  const { truth, record, process } = world;
  const own = record.ended.filter(round => round.process === process);
  const cleanly = ({ parts }: Round) => [...parts.values()].every(isClean);
  /** Whether each alert may resolve, by name. */
  const reasons: Readonly<Record<string, (since: number) => boolean>> = {
    DlqHigh: () =>
      walksOf(world, 'all').some(walk => {
        const part = walk.parts.get('all');
        const all = truth.entries.filter(
          entry => isListed(entry, walk.begunAt) && isListed(entry, walk.endedAt ?? world.now),
        );
        return part !== undefined && isClean(part) && all.length <= 6;
      }),
    FlowWaiting: () => {
      const list = own.findLastIndex(round => round.round === 'list' && round.isObserved && cleanly(round));
      if (list === -1) return false;
      const answers = own.slice(list).flatMap(({ answers }) => answers.filter(({ quality }) => quality === 'whole'));
      return answers.some(
        ({ key = 'tenant-0', trueAt }) => key === 'tenant-0' && sizeAt(truth.keys.get(key) ?? [], trueAt) <= 5,
      );
    },
    TokenRefused: () => process.accepted > 0,
    DlqStale: since =>
      own.some(
        ({ round, success, isCommitting, isObserved, endedAt = world.now }) =>
          // Data that was read completely is exposed as fresh even if its commit fails.
          round === 'full' && (success || isCommitting || isObserved) && endedAt >= since,
      ),
  };
  return [...before].flatMap(([name, since]) =>
    after.has(name) || reasons[name]?.(since) ? [] : [`${name} is resolved without a reason in any read`],
  );
}
