import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { gauge } from '../metrics/family.ts';
import type { EventsFacts } from '../model/facts.ts';
import { type DeliveryEvent, EVENT_STATES, type EventState } from '../model/message.ts';
import type { Page } from '../upstream/api.ts';
import { defineCollector, type ObserveContext, PAGES_A_STEP } from './collector.ts';

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the event log.'),
  every: Duration.prefault('15s').describe(
    'Time between two reads of the event log: a call per 1,000 events of `window`.',
  ),
  window: Duration.prefault('5m').describe('How far back `delivery_events_recent` counts.'),
});

type Options = z.output<typeof options>;

/** Time of the newest event ever seen, milliseconds since the Unix epoch: a quiet log keeps it. */
interface Memory {
  readonly newest: number | undefined;
}

/** A read of one window of the log, page by page. */
interface Walk {
  readonly pages: AsyncIterator<Page<DeliveryEvent>>;
  readonly recent: Record<EventState, number>;
  newest: number | undefined;
}

/** Recent states in the event log. */
export const events = defineCollector({
  name: 'events',
  configKey: 'events',
  options,
  families: {
    recent: gauge(
      'delivery_events_recent',
      'Events by state whose time lies in the last delivery_events_window_seconds before the last complete read of the log in the background. The log may be late; unknown is any state not listed here.',
      ['state'],
    ),
    window: gauge(
      'delivery_events_window_seconds',
      'Length of the window that delivery_events_recent counts, as configured.',
    ),
    newest: gauge(
      'delivery_event_log_newest_timestamp_seconds',
      'Time of the newest event ever seen in the log by reads in the background. No events is not the same as healthy: compare with the time now.',
    ),
  },
  rounds: ({ every }) => ({ tail: { every, requests: 1 } }),
  restore: (rows): Memory => ({ newest: rows.has('newest') ? Number(rows.get('newest')) : undefined }),

  async observe(context: ObserveContext<Options, Memory, Walk>) {
    const { api, options, now, memory, signal } = context;
    const { window } = options;
    const walk: Walk = context.walk ?? {
      pages: api.eventPages({ fromDate: now - window, toDate: now }, signal),
      recent: Object.fromEntries(EVENT_STATES.map(state => [state, 0])) as Record<EventState, number>,
      newest: memory.newest,
    };
    for (let pages = 0; pages < PAGES_A_STEP; pages += 1) {
      const page = await walk.pages.next();
      if (page.done) {
        const facts: EventsFacts = { recent: walk.recent, windowMs: window, newest: walk.newest };
        const changes = walk.newest === memory.newest ? [] : [{ key: 'newest', value: String(walk.newest) }];
        return { fold: () => ({ facts, memory: { newest: walk.newest }, changes }), more: undefined };
      }
      for (const { state, time } of page.value.rows) {
        // The service was asked for this window alone; a time outside it can't be believed.
        if (time < now - window || time > now) continue;
        walk.recent[state] += 1;
        if (walk.newest === undefined || time > walk.newest) walk.newest = time;
      }
    }
    return { fold: (memory: Memory) => ({ facts: undefined, memory, changes: [] }), more: walk };
  },

  samples: ({ recent, windowMs, newest }: EventsFacts) => ({
    recent: EVENT_STATES.map(state => ({ labels: { state }, value: recent[state] })),
    window: [{ labels: {}, value: windowMs / 1000 }],
    newest: newest === undefined ? [] : [{ labels: {}, value: newest / 1000 }],
  }),
});
