import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { uniqueNames } from '../../kit/unique-names.ts';
import { DLQ_FILTERS, filterValueFault } from '../../upstream/api.ts';
import { OTHER } from '../cap.ts';
import { type Collector, defineKind, type Observation, type ObserveContext, type Rounds } from '../collector.ts';
import { NO_ROUTES, type Routes } from '../routes.ts';
import { DIMENSIONS, type Dimension } from './aggregate.ts';
import type { TrackerOptions } from './callbacks.ts';
import { chooseGroups, chooseValues, type DlqFacts, toFacts } from './facts.ts';
import { families, samples } from './families.ts';
import { type Memory, restoreMemory, takeChanges } from './memory.ts';
import { type Failure, MOST_OF_A_READ } from './reading.ts';
import {
  detectFromDateField,
  foldStep,
  ONE_PAGE,
  type RoundContext,
  readStep,
  since,
  startComplete,
  startSince,
  type Walk,
} from './rounds.ts';
import { withdrawFilters } from './selection.ts';
import { foldWorkflows, readWorkflows, startWorkflows, type WorkflowReading } from './workflows.ts';

const RESERVED = ['all', OTHER];

const filter = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(200)
    .refine(name => !RESERVED.includes(name), { error: `must not be one of ${RESERVED.join(', ')}` })
    .describe('Value of the label `filter`; unique.'),
  match: z
    .partialRecord(z.enum(DLQ_FILTERS), z.union([z.string().min(1), z.number()], { error: 'must be text or a number' }))
    .refine(match => Object.keys(match).length > 0, { error: `must name at least one of ${DLQ_FILTERS.join(', ')}` })
    .superRefine((match, context) => {
      for (const name of DLQ_FILTERS) {
        const value = match[name];
        const message = value === undefined ? undefined : filterValueFault(name, value);
        if (message) context.addIssue({ code: 'custom', path: [name], message });
      }
    })
    .describe(`Query parameters of the DLQ list; all must match: ${DLQ_FILTERS.join(', ')}.`),
});

const dimensions = Object.keys(DIMENSIONS) as Dimension[];

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the dead-letter queue.'),
  every: Duration.prefault('30s').describe(
    'Interval between reads for new entries: one request if there are none. Filters are read only if there are new entries.',
  ),
  rescanEvery: Duration.prefault('10m').describe(
    'Interval between complete walks of the queue and of each filter; walks find removals. One request per 100 entries. A queue of fewer than 100 entries is read completely at every interval `every`.',
  ),
  fromDateMeans: z
    .enum(['auto', 'entry', 'creation'], { error: 'must be auto, entry or creation' })
    .default('auto')
    .describe(
      'Time of an entry that the service compares with `fromDate`: its entry into the queue or its creation. `auto` probes the service and assumes `creation` until the service proves otherwise.',
    ),
  filters: z
    .array(filter)
    .max(1000)
    .superRefine(uniqueNames)
    .default([])
    .describe('Named selections of the queue; the service does the filtering.'),
  breakdowns: z
    .array(z.enum(dimensions, { error: `must be one of ${dimensions.join(', ')}` }))
    .default(['urlHost', 'responseStatus'])
    .transform(all => [...new Set(all)])
    .describe(`Dimensions by which the queue is broken down: ${dimensions.join(', ')}.`),
  maxSeriesPerBreakdown: z
    .int()
    .min(1)
    .max(10_000)
    .default(50)
    .describe(
      'Maximum number of series per dimension: those with the most entries. The rest is summed as `__other__`.',
    ),
});

export interface CallbackOptions extends TrackerOptions {
  /** Interval between two complete walks (ms), if the rules need them more often than every `rescanEvery`. */
  readonly walkEvery?: number | undefined;
}

export interface DlqServices {
  /** Milliseconds that the account's plan keeps entries, where that is known. */
  readonly retention?: number | undefined;
  /** Milliseconds after which sizes of a filter that can't be read are withdrawn; default: 30 minutes. */
  readonly withdrawFiltersAfter?: number | undefined;
  readonly routes?: Routes | undefined;
  readonly isLogged?: boolean | undefined;
  /** Default: callbacks that are reported in progress are tracked. */
  readonly callbacks?: CallbackOptions | undefined;
}

export type DlqOptions = z.output<typeof options>;

/** A pause between two complete walks after which nothing is known of failure callbacks, unless the rules say otherwise. */
const USUAL_GAP = 30 * 60_000;

const USUAL_LIMIT = 30 * 60_000;

/** `hasEnded`: it is folded, and what it found says what comes next. */
interface RoundWalk {
  readonly stage: 'all' | 'filters' | 'everything';
  readonly walk: Walk;
  readonly hasEnded: boolean;
  /** Why reading failed: the round fails once that is folded. */
  readonly failure?: Failure | undefined;
  /** Failed workflow runs, read by themselves once everything is. */
  readonly workflows?: WorkflowReading;
}

/** The dead-letter queue. It has no count operation, so it is walked; pages are folded and forgotten. */
export const dlq = defineKind({
  name: 'dlq',
  configKey: 'dlq',
  options,
  families,
  rounds: (options: DlqOptions) => cadences(options, options.rescanEvery),
  create: createDlq,
  samples,
});

function cadences({ every, filters }: DlqOptions, walkEvery: number): Rounds {
  return {
    ...(every < walkEvery && { new: { every, requests: 1, priority: 'dlq' } }),
    // The queue, failed workflow runs by themselves, and each filter.
    full: { every: walkEvery, requests: 2 + filters.length, markAfter: 2, priority: 'background' },
  };
}

export function createDlq(
  options: DlqOptions,
  { retention, callbacks, withdrawFiltersAfter = USUAL_LIMIT, routes = NO_ROUTES, isLogged = false }: DlqServices = {},
): Collector<DlqFacts, Memory, RoundWalk> {
  const { rescanEvery, fromDateMeans, maxSeriesPerBreakdown } = options;
  const tracker = callbacks ?? { track: () => false, maxGap: Math.max(USUAL_GAP, 3 * rescanEvery) };
  return {
    ...dlq,
    rounds: cadences(options, callbacks?.walkEvery ?? rescanEvery),
    restore: rows => restoreMemory(rows, options, { callbacks: tracker, routes, isLogged }),
    recall: toFacts,
    async observe(context) {
      const { memory, round, walk } = context;
      const meaning = fromDateMeans === 'auto' ? (memory.meaning ?? 'creation') : fromDateMeans;
      const roundContext: RoundContext = { ...context, meaning, retention };
      if (walk?.failure) throw walk.failure.error;
      if (round === 'new' && !walk && memory.tooMuchNew) throw memory.tooMuchNew;
      const next = nextWalk(context, roundContext);
      if (next?.workflows) return observeWorkflows(next, next.workflows, context);
      const step = next && (await readStep(next.walk, memory));
      const hasEnded = step === undefined || step.isLast;
      const isToDetect = next?.stage === 'everything' && hasEnded && fromDateMeans === 'auto' && !memory.meaning;
      const detected = isToDetect ? await detectFromDateField(next.walk.probe, roundContext) : undefined;
      return {
        fold(memory) {
          if (next && step) foldStep(memory, next.walk, step, roundContext, round);
          if (detected) {
            memory.meaning = detected;
            memory.isTouched = true;
          }
          // Before the first complete walk there is nothing to be shown; and which values are shown is chosen once a round.
          const isShown = !next && memory.all.shown !== undefined;
          if (isShown) {
            withdrawFilters(memory.filters, context.now, withdrawFiltersAfter);
            memory.members = chooseValues(memory, maxSeriesPerBreakdown);
            memory.groupMembers = chooseGroups(memory);
            const { shown, doubt } = memory.all;
            // Of rows that could not be read, any may be of any kind.
            if (shown?.groups && !doubt) memory.groups.judge(shown.groups, context.now);
          }
          const facts = isShown ? toFacts(memory) : undefined;
          return { memory, facts, changes: takeChanges(memory), log: memory.all.log?.take() };
        },
        isPartial: step?.reads.some(({ rejected }) => rejected > 0) ?? false,
        failedFilters: next ? [] : memory.filters.flatMap(({ failure }) => failure ?? []),
        more: next && { ...next, hasEnded, failure: step?.failure },
        // What is new is asked for once everything was read.
        idle: next || walk ? undefined : 'waiting',
      };
    },
  };
}

type Context = ObserveContext<Memory, RoundWalk>;

async function observeWorkflows(
  next: Omit<RoundWalk, 'hasEnded'>,
  workflows: WorkflowReading,
  { memory, now }: Context,
): Promise<Observation<DlqFacts, Memory, RoundWalk>> {
  const read = await readWorkflows(workflows, next.walk, memory);
  return {
    fold(memory) {
      foldWorkflows(memory, next.walk, read, now);
      return { memory, facts: undefined, changes: takeChanges(memory) };
    },
    isPartial: read.rejected > 0,
    more: { ...next, hasEnded: read.isLast },
  };
}

/** What this step reads; undefined when the round has nothing more to read. */
function nextWalk(
  { walk, round, memory, now }: Context,
  context: RoundContext,
): Omit<RoundWalk, 'hasEnded'> | undefined {
  const { all } = memory;
  if (walk && !walk.hasEnded) return walk;
  if (round === 'full') {
    if (!walk) return { stage: 'everything', walk: startComplete([all, ...memory.filters], context) };
    return walk.workflows ? undefined : { ...walk, workflows: startWorkflows(context) };
  }
  if (!walk) {
    // Nothing is new as long as nothing is known.
    if (!all.shown) return undefined;
    const isSmall = all.roster.size < ONE_PAGE && !all.walk;
    const look = isSmall
      ? startComplete([all], context, MOST_OF_A_READ)
      : startSince([all], since(memory, now, context.meaning), context);
    return { stage: 'all', walk: look };
  }
  // What it found went with its walk: it is read once more, beside the one that goes on.
  if (walk.walk.isOvertaken) {
    const { selections } = walk.walk;
    return { stage: walk.stage, walk: startSince(selections, since(memory, now, context.meaning), context) };
  }
  // The next complete walk reads those that failed: a filter that is refused or hangs would delay each round.
  const filters = memory.filters.filter(({ failure }) => !failure);
  if (walk.stage === 'filters' || walk.walk.changes === 0 || filters.length === 0) return undefined;
  // A complete walk of them that is under way goes on; a read for new entries beside it takes nothing from it.
  const isWhole = walk.walk.isComplete && !filters.some(selection => selection.walk);
  const look = isWhole
    ? startComplete(filters, context, MOST_OF_A_READ)
    : startSince(filters, since(memory, now, context.meaning), context);
  return { stage: 'filters', walk: look };
}
