import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { gauge } from '../metrics/family.ts';
import type { DlqFacts, DlqSelection } from '../model/facts.ts';
import type { DlqEntry } from '../model/message.ts';
import { DLQ_FILTERS, type DlqQuery, type Page } from '../upstream/api.ts';
import { defineCollector, type ObserveContext, PAGES_A_STEP } from './collector.ts';

const RESERVED = ['all', '__other__'];

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
    .describe(`Query parameters of the DLQ list, all of which must match: ${DLQ_FILTERS.join(', ')}.`),
});

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the dead-letter queue.'),
  every: Duration.prefault('30s').describe(
    'Time between two reads of the queue. Each read walks the queue and every filter completely: a call per 100 entries.',
  ),
  rescanEvery: Duration.prefault('10m').describe(
    'Longest time between two complete walks; `every` wins when it is shorter.',
  ),
  filters: z
    .array(filter)
    .max(1000)
    .refine(filters => new Set(filters.map(({ name }) => name)).size === filters.length, {
      error: 'must have a different name in each filter',
    })
    .default([])
    .describe('Named selections of the queue, each counted by the service’s own filtering.'),
});

type Options = z.output<typeof options>;

/** A walk through `all` and then every filter, page by page. */
interface Walk {
  readonly left: { readonly name: string; readonly match: DlqQuery }[];
  readonly done: Map<string, DlqSelection>;
  pages: AsyncIterator<Page<DlqEntry>> | undefined;
  current: DlqSelection;
}

const EMPTY: DlqSelection = { messages: 0, oldest: undefined, newest: undefined };

function fold(selection: DlqSelection, rows: readonly DlqEntry[]): DlqSelection {
  let { oldest, newest } = selection;
  for (const { createdAt } of rows) {
    if (createdAt === undefined) continue;
    if (oldest === undefined || createdAt < oldest) oldest = createdAt;
    if (newest === undefined || createdAt > newest) newest = createdAt;
  }
  return { messages: selection.messages + rows.length, oldest, newest };
}

/** Size and age of the dead-letter queue. It has no count operation, so it is walked; pages are folded and forgotten. */
export const dlq = defineCollector({
  name: 'dlq',
  configKey: 'dlq',
  options,
  families: {
    messages: gauge(
      'delivery_dlq_messages',
      'Messages in the dead-letter queue that match the filter, counted by the last complete walk in the background. The filter all is the whole queue and overlaps the others: do not sum over filter. Filters are walked one after the other, so messages that come or go meanwhile may be in one and not in another.',
      ['filter'],
    ),
    oldest: gauge(
      'delivery_dlq_oldest_message_timestamp_seconds',
      'Creation time (createdAt) of the oldest message that matches the filter, from the last complete walk in the background. Absent when there is none.',
      ['filter'],
    ),
    newest: gauge(
      'delivery_dlq_newest_message_timestamp_seconds',
      'Creation time (createdAt) of the newest message that matches the filter, from the last complete walk in the background. Absent when there is none.',
      ['filter'],
    ),
  },
  rounds: ({ every, rescanEvery, filters }) => ({
    full: { every: Math.min(every, rescanEvery), requests: 1 + filters.length },
  }),
  restore: () => undefined,

  async observe({ api, options, walk = begin(options.filters), signal }: ObserveContext<Options, undefined, Walk>) {
    for (let pages = 0; pages < PAGES_A_STEP && walk.left[0]; pages += 1) {
      const { name, match } = walk.left[0];
      walk.pages ??= api.dlqPages(match, signal);
      const page = await walk.pages.next();
      if (!page.done) {
        walk.current = fold(walk.current, page.value.rows);
        continue;
      }
      walk.done.set(name, walk.current);
      walk.left.shift();
      walk.pages = undefined;
      walk.current = EMPTY;
    }
    const facts: DlqFacts | undefined = walk.left.length === 0 ? { filters: walk.done } : undefined;
    return { fold: () => ({ facts, memory: undefined, changes: [] }), more: facts ? undefined : walk };
  },

  samples({ filters }: DlqFacts) {
    const selections = [...filters].map(([filter, selection]) => ({ labels: { filter }, selection }));
    const times = (time: 'oldest' | 'newest') =>
      selections.flatMap(({ labels, selection: { [time]: ms } }) =>
        ms === undefined ? [] : [{ labels, value: ms / 1000 }],
      );
    return {
      messages: selections.map(({ labels, selection }) => ({ labels, value: selection.messages })),
      oldest: times('oldest'),
      newest: times('newest'),
    };
  },
});

function begin(filters: readonly { name: string; match: DlqQuery }[]): Walk {
  return { left: [{ name: 'all', match: {} }, ...filters], done: new Map(), pages: undefined, current: EMPTY };
}
