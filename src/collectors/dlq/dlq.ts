import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { hash64 } from '../../kit/hash.ts';
import { intOption } from '../../kit/option.ts';
import { uniqueNames } from '../../kit/unique-names.ts';
import type { DlqEntry } from '../../model/message.ts';
import type { Inherited } from '../../scheduler/board.ts';
import { DLQ_FILTERS, filterValueError, isUnanswerable, type ListPage } from '../../upstream/api.ts';
import { OTHER } from '../cap.ts';
import {
  AGENT_TIME,
  type Collector,
  defineKind,
  type Observation,
  type ObserveContext,
  PAGES_A_STEP,
  type Rounds,
  type ServiceTime,
} from '../collector.ts';
import { NO_ROUTES, type Routes } from '../routes.ts';
import { DIMENSIONS, type Dimension } from './aggregate.ts';
import type { CallbackTracking, TrackerOptions } from './callback-tracker.ts';
import { type DlqFacts, dlqFamilies, toFacts } from './families.ts';
import { type DlqMemory, drainDlqChanges, restoreDlqMemory, selectionKey } from './memory.ts';
import { asFailure, NEW_READ_LIMIT, type ReadFailure } from './reading.ts';
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

/** A separate read of failed workflow runs. Some services list runs or callback states only there. */
interface WorkflowReading {
  readonly pages: AsyncIterator<ListPage<DlqEntry>>;
  readonly signal: AbortSignal;
  hasBegun: boolean;
  /** Whether a page contained a run or a callback state that the walk of the queue lacks. */
  isWorthwhile: boolean;
}

function startWorkflows({ api, signal }: RoundContext): WorkflowReading {
  return { pages: api.dlqPages({ source: 'workflow' }, signal), signal, hasBegun: false, isWorthwhile: false };
}

/**
 * Reads the next pages. Stops after one page if the service ignores the filter or lists nothing new. `isPartial`: some rows were
 * unreadable or incomplete. `isCutOff`: the read failed midway, so that the walk does not update failure callbacks.
 */
async function readWorkflows(reading: WorkflowReading, { callbacks }: Walk, { all }: DlqMemory) {
  let rows: readonly DlqEntry[] = [];
  let isPartial = false;
  const isNew = ({ id, callbackState }: DlqEntry) =>
    callbackState === undefined ? !all.roster.has(hash64(id)) : !callbacks?.hasState(id);
  for (let count = 0; count < PAGES_A_STEP; count += 1) {
    // The queue itself has been read: a failure here must not fail its round.
    const page = await reading.pages.next().catch(asFailure(reading.signal));
    if ('error' in page) {
      // A service may reject the request as unknown.
      return { rows, isPartial, isLast: true, isCutOff: reading.hasBegun || !isUnanswerable(page.error) };
    }
    if (page.done) return { rows, isPartial, isLast: true };
    reading.hasBegun = true;
    const { rows: listed, isLast } = page.value;
    rows = [...rows, ...listed];
    isPartial ||= page.value.rejected > 0 || page.value.incomplete > 0;
    reading.isWorthwhile ||= listed.every(({ workflowRunId }) => workflowRunId !== undefined) && listed.some(isNew);
    // An empty page may be followed by others.
    if (isLast || (listed.length > 0 && !reading.isWorthwhile)) return { rows, isPartial, isLast: true };
  }
  return { rows, isPartial, isLast: false };
}

/** Folds the pages of one step. The last step ends the walk. `now`: start of the round (ms since the Unix epoch). */
function foldWorkflows(
  memory: DlqMemory,
  walk: Walk,
  read: Awaited<ReturnType<typeof readWorkflows>>,
  now: number,
): void {
  const { callbacks } = walk;
  callbacks?.add(read.rows);
  walk.isPartial ||= read.isPartial;
  if (!read.isLast) return;
  if (read.isCutOff || walk.isPartial) memory.callbacks.markPartial();
  else callbacks?.end(now);
}

const RESERVED = ['all', OTHER];

const filter = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(200)
    .refine(name => !RESERVED.includes(name), { error: `must not be one of ${RESERVED.join(', ')}` })
    .describe('Unique name, used as the label `filter`.'),
  match: z
    .partialRecord(z.enum(DLQ_FILTERS), z.union([z.string().min(1), z.number()], { error: 'must be text' }))
    .refine(match => Object.keys(match).length > 0, { error: `must have at least one of ${DLQ_FILTERS.join(', ')}` })
    .superRefine((match, context) => {
      for (const name of DLQ_FILTERS) {
        const value = match[name];
        const message = value === undefined ? undefined : filterValueError(name, value);
        if (message) context.addIssue({ code: 'custom', path: [name], message });
      }
    })
    .describe(
      `Query parameters of the DLQ list: ${DLQ_FILTERS.join(', ')}. An entry must match all parameters that are set.`,
    ),
});

const dimensions = Object.keys(DIMENSIONS) as Dimension[];

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Whether the agent reads the dead-letter queue.'),
  every: Duration.prefault('30s').describe(
    'Interval between reads of new entries. Without new entries, a read takes one request, or up to five with `fromDateMeans: creation`.',
  ),
  rescanEvery: Duration.prefault('10m').describe(
    'Interval between walks (full scans of the queue and of each filter). A walk takes one request per 100 entries. If the queue has fewer than 100 entries, every read is a walk.',
  ),
  fromDateMeans: z
    .enum(['auto', 'entry', 'creation'], { error: 'must be auto, entry or creation' })
    .default('auto')
    .describe(
      'Time that the service compares with `fromDate`: when a message entered the queue (`entry`) or was created (`creation`). `auto`: the agent assumes `creation` until a test proves `entry`.',
    ),
  filters: z
    .array(filter)
    .max(1000)
    .superRefine(uniqueNames)
    .default([])
    .describe('Named parts of the queue with separate metrics: see docs/collectors.md.'),
  breakdowns: z
    .array(z.enum(dimensions, { error: `must be one of ${dimensions.join(', ')}` }))
    .default(['urlHost', 'responseStatus'])
    .transform(all => [...new Set(all)])
    .describe('Dimensions by which the messages in the queue are counted. Each dimension has a separate metric.'),
  maxSeriesPerBreakdown: intOption({ min: 1, max: 10_000, otherwise: 50 }).describe(
    'Maximum number of values per dimension with separate series (most messages first). `__other__` is the sum of all other values.',
  ),
});

export interface DlqServices {
  /** Configured retention of the queue (ms), if any. */
  readonly retention?: number | undefined;
  /** Time after which the sizes of an unreadable filter are withdrawn (ms). */
  readonly withdrawFiltersAfter?: number | undefined;
  readonly routes?: Routes | undefined;
  readonly isLogged?: boolean | undefined;
  /** By default, callbacks reported as in progress are tracked, regardless of the time between two walks. */
  readonly callbacks?: CallbackTracking | undefined;
  readonly clockOffset?: TrackerOptions['clockOffset'];
  readonly serviceClock?: ServiceTime | undefined;
}

export type DlqOptions = z.output<typeof options>;

/** Progress of a round. `hasEnded`: all steps of `walk` are folded, so the next stage can be chosen. */
interface RoundWalk {
  readonly stage: 'all' | 'filters' | 'everything';
  readonly walk: Walk;
  readonly hasEnded: boolean;
  /** Read error. The failed step is folded before the round fails. */
  readonly failure?: ReadFailure | undefined;
  /** Separate read of failed workflow runs, after everything else. */
  readonly workflows?: WorkflowReading;
}

/** Collects the dead-letter queue. Its size is not reported, so all pages are read. Each page is discarded once folded. */
export const dlq = defineKind({
  name: 'dlq',
  title: 'Dead letters',
  configKey: 'dlq',
  options,
  families: dlqFamilies,
  rounds: (options: DlqOptions) => cadences(options, options.rescanEvery),
  create: createDlq,
});

function cadences({ every, filters }: DlqOptions, walkEvery: number): Rounds {
  return {
    ...(every < walkEvery && {
      new: { every, requests: 1, why: 'if there are new entries, also reads each filter', priority: 'dlq' },
    }),
    full: {
      every: walkEvery,
      requests: 2 + filters.length,
      why: 'reads the queue, failed workflow runs and each filter, in pages of 100; with `fromDateMeans: auto`, one more call tests the meaning until it is known',
      markAfter: 2,
      priority: 'background',
    },
  };
}

export function createDlq(
  options: DlqOptions,
  {
    retention,
    callbacks = { unreported: [], maxGap: Number.MAX_VALUE },
    clockOffset,
    withdrawFiltersAfter = 30 * 60_000,
    routes = NO_ROUTES,
    isLogged = false,
    serviceClock = AGENT_TIME,
  }: DlqServices = {},
): Collector<DlqFacts, DlqMemory, RoundWalk> {
  const { rescanEvery, fromDateMeans, maxSeriesPerBreakdown } = options;
  return {
    ...dlq,
    rounds: cadences(options, callbacks.walkEvery ?? rescanEvery),
    restore: rows => restoreDlqMemory(rows, options, { callbacks: { ...callbacks, clockOffset }, routes, isLogged }),
    recall: memory => toFacts(memory, maxSeriesPerBreakdown),
    inherit: last => inheritFilters(last, options),
    async observe(context) {
      const { memory, round, walk } = context;
      const meaning = fromDateMeans === 'auto' ? (memory.meaning ?? 'creation') : fromDateMeans;
      const serviceNow = serviceClock.at(context.now);
      const roundContext: RoundContext = { ...context, serviceNow, meaning, retention };
      if (walk?.failure) throw walk.failure.error;
      if (round === 'new' && !walk && memory.tooMuchNew) throw memory.tooMuchNew;
      const next = nextWalk(context, roundContext);
      if (next?.workflows) return observeWorkflows(next, next.workflows, context);
      const step = next && (await readStep(next.walk, memory));
      const hasEnded = step === undefined || step.isLast;
      const mustDetect = next?.stage === 'everything' && hasEnded && fromDateMeans === 'auto' && !memory.meaning;
      const detected = mustDetect ? await detectFromDateField(next.walk.probe, roundContext) : undefined;
      return {
        fold(memory) {
          if (next && step) foldStep(memory, next.walk, step, roundContext, round);
          if (detected) {
            memory.meaning = detected;
            memory.isTouched = true;
          }
          // Facts are computed at the end of a round, once a complete walk has succeeded.
          const isShown = !next && memory.all.shown !== undefined;
          if (isShown) {
            memory.all.hosts?.evict(serviceNow);
            withdrawFilters(memory.filters, context.now, withdrawFiltersAfter);
            const { shown, ambiguity } = memory.all;
            // An unreadable row may belong to any group, so new groups cannot be determined.
            if (shown?.kinds && !ambiguity) memory.kinds.update(shown.kinds);
          }
          const facts = isShown ? toFacts(memory, maxSeriesPerBreakdown) : undefined;
          return { memory, facts, changes: drainDlqChanges(memory), log: memory.all.log?.drain() };
        },
        isPartial: step?.reads.some(({ isPartial }) => isPartial) ?? false,
        failedFilters: next ? [] : memory.filters.flatMap(({ failure }) => failure ?? []),
        more: next && { ...next, hasEnded, failure: step?.failure },
        hasFailed: step?.failure !== undefined,
        // Reads for new entries start after the first complete walk.
        idle: next || walk ? undefined : 'waiting',
      };
    },
  };
}

/** Removes filters that are no longer configured or have another `match`. */
function inheritFilters(last: Inherited<DlqFacts>, { filters }: DlqOptions): Inherited<DlqFacts> {
  if (!last.facts) return last;
  const keys = new Set([selectionKey('all', {}), ...filters.map(({ name, match }) => selectionKey(name, match))]);
  const selections = new Map([...last.facts.selections].filter(([, { key }]) => keys.has(key)));
  const failedFilters = last.failedFilters.filter(({ name }) => selections.has(name));
  return { ...last, facts: { ...last.facts, selections }, failedFilters };
}

type Context = ObserveContext<DlqMemory, RoundWalk>;

async function observeWorkflows(
  next: Omit<RoundWalk, 'hasEnded'>,
  workflows: WorkflowReading,
  { memory, now }: Context,
): Promise<Observation<DlqFacts, DlqMemory, RoundWalk>> {
  const read = await readWorkflows(workflows, next.walk, memory);
  return {
    fold(memory) {
      foldWorkflows(memory, next.walk, read, now);
      return { memory, facts: undefined, changes: drainDlqChanges(memory) };
    },
    isPartial: read.isPartial,
    more: { ...next, hasEnded: read.isLast },
  };
}

/** Returns what this step reads; undefined at the end of the round. */
function nextWalk({ walk, round, memory }: Context, context: RoundContext): Omit<RoundWalk, 'hasEnded'> | undefined {
  const { all } = memory;
  if (walk && !walk.hasEnded) return walk;
  if (round === 'full') {
    if (!walk) return { stage: 'everything', walk: startComplete([all, ...memory.filters], context) };
    return walk.workflows ? undefined : { ...walk, workflows: startWorkflows(context) };
  }
  if (!walk) {
    // Without a complete walk there is no baseline for new entries.
    if (!all.shown) return undefined;
    const isSmall = all.roster.size < ONE_PAGE && !all.walk;
    const next = isSmall ? startComplete([all], context, NEW_READ_LIMIT) : startSince([all], since(context), context);
    return { stage: 'all', walk: next };
  }
  // A newer walk discarded this walk's results: read for new entries while the newer walk continues.
  if (walk.walk.isOvertaken) {
    const { selections } = walk.walk;
    return { stage: walk.stage, walk: startSince(selections, since(context), context) };
  }
  // Failed filters wait for the next complete walk: a rejected or hanging request would delay each round.
  const filters = memory.filters.filter(({ failure }) => !failure);
  if (walk.stage === 'filters' || walk.walk.changes === 0 || filters.length === 0) return undefined;
  // Restarting a complete walk of a filter would discard its results. A read for new entries can run concurrently.
  const isWhole = walk.walk.isComplete && !filters.some(selection => selection.walk);
  const next = isWhole ? startComplete(filters, context, NEW_READ_LIMIT) : startSince(filters, since(context), context);
  return { stage: 'filters', walk: next };
}
