import { bareAddress } from '../../kit/text.ts';
import { type AccountCheck, checksOf, toAgentTime } from './check.ts';
import { clockTime, durationText, plural } from './words.ts';

export const RUNS: readonly AccountCheck[] = [
  checksOf('runs')('run_stuck', 'DeliveryWorkflowRunStuck', {
    when: 'a workflow run has been in progress for longer than `collect.runs.olderThan`',
    check(input) {
      const { count = 0, hasMore = false, oldest, olderThan = 0 } = input.shown.runs?.now ?? {};
      if (!oldest) return [];
      const { createdAt, runId, url } = oldest;
      const number = `${hasMore ? 'At least ' : ''}${plural(count, 'workflow run')}`;
      const lasting = `${count === 1 ? 'has' : 'have'} been in progress for more than ${durationText(olderThan / 1000)}`;
      const which = hasMore ? 'one of them ' : 'the oldest ';
      const since = `${count === 1 && !hasMore ? '' : which}since ${clockTime(createdAt, input.serviceNow)}`;
      const where = url === undefined ? '' : `${bareAddress(url)}, `;
      return {
        since: toAgentTime(input, createdAt + olderThan),
        text: `${number} ${lasting}, ${since}: ${where}run ${runId}.`,
      };
    },
  }),
];
