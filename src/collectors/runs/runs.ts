import { z } from 'zod';
import { Duration, formatDuration } from '../../kit/duration.ts';
import { AutoOrOff } from '../../kit/option.ts';
import type { WorkflowRun } from '../../model/service.ts';
import { FilterContradiction, type Reader } from '../../upstream/api.ts';
import { type Collector, defineKind, familiesOf, optionalSample, type ServiceTime, toSeconds } from '../collector.ts';

const options = z.strictObject({
  enabled: AutoOrOff.describe('`auto`: workflow runs are read if the service lists them. `false`: never.'),
  every: Duration.prefault('15m').describe('Interval between reads of workflow runs. Each read takes one request.'),
  olderThan: Duration.prefault('1h').describe(
    'Age at which a workflow run in progress counts as stuck. Set it above the longest time that a workflow normally takes, including its waits.',
  ),
});

type RunsOptions = z.output<typeof options>;

export interface RunsServices {
  readonly serviceClock?: ServiceTime | undefined;
}

/** Runs in progress that are older than the threshold. */
export interface RunsFacts {
  /** Minimum age of a counted run (ms). */
  readonly olderThan: number;
  /** Number of such runs on the first page; undefined if no listed row reports its age. */
  readonly count: number | undefined;
  readonly hasMore: boolean;
  readonly oldest: (WorkflowRun & { readonly createdAt: number }) | undefined;
}

const { gauge } = familiesOf<RunsFacts>();

export const runs = defineKind({
  name: 'runs',
  title: 'Workflow runs',
  configKey: 'runs',
  options,
  isOptional: true,
  families: {
    olderThan: gauge({
      name: 'delivery_workflow_runs_older_than',
      help: 'Workflow runs in progress that are older than `collect.runs.olderThan` (label `threshold`). Only one page of ten runs is read, so there may be more.',
      labels: ['threshold'],
      pick: ({ olderThan, count }) => optionalSample({ threshold: formatDuration(olderThan) }, count),
    }),
    oldest: gauge({
      name: 'delivery_workflow_oldest_run_timestamp_seconds',
      help: 'Creation time of the oldest run that `delivery_workflow_runs_older_than` counts. Absent if there is no such run.',
      pick: ({ oldest }) => toSeconds(oldest?.createdAt),
    }),
  },
  rounds: ({ every }: RunsOptions) => ({ runs: { every, requests: 1, priority: 'background' as const } }),
  create: createRuns,
});

/** Maximum number of pages to read: a page may be empty although another one follows. */
const MAX_PAGES = 5;

/** Reads the first page that is not empty. `isLast`: whether there is no further page. */
async function firstRows(api: Reader, toDate: number, signal: AbortSignal) {
  const pages = api.runPages({ state: 'started', toDate }, signal);
  for (let count = 0; count < MAX_PAGES; count += 1) {
    const page = await pages.next();
    if (page.done) break;
    const { rows, rejected, incomplete, isLast } = page.value;
    if (rows.length > 0 || isLast) return { rows, isLast, isPartial: rejected + incomplete > 0 };
  }
  return { rows: [], isLast: false, isPartial: true };
}

function createRuns(
  { olderThan, every }: RunsOptions,
  { serviceClock }: RunsServices = {},
): Collector<RunsFacts, undefined, never> {
  return {
    ...runs,
    rounds: runs.rounds({ enabled: 'auto', every, olderThan }),
    restore: () => undefined,
    async observe({ api, now, signal }) {
      const before = (serviceClock?.at(now) ?? now) - olderThan;
      const { rows, isLast, isPartial } = await firstRows(api, before, signal);
      const old = rows.flatMap(run => {
        const { state, createdAt } = run;
        return state === 'started' && createdAt !== undefined && createdAt <= before ? [{ ...run, createdAt }] : [];
      });
      const others = rows.filter(
        ({ state, createdAt = before }) => (state !== 'started' && state !== 'unknown') || createdAt > before,
      ).length;
      // Other runs may displace the requested ones on the page.
      if (others > 0 && old.length === 0) {
        const counts = `${others} of ${rows.length} rows do not match`;
        throw new FilterContradiction(`the service ignores the parameter state or toDate: ${counts}`);
      }
      const isUnknown = rows.length > old.length + others;
      const facts: RunsFacts = {
        olderThan,
        count: old.length === 0 && (isUnknown || isPartial) ? undefined : old.length,
        hasMore: !isLast,
        oldest: old.toSorted((a, b) => a.createdAt - b.createdAt)[0],
      };
      return {
        fold: memory => ({ memory, facts, changes: [] }),
        isPartial: isPartial || isUnknown || others > 0,
        more: undefined,
      };
    },
  };
}
