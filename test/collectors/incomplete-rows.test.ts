import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../src/collectors/dlq/families.ts';
import { createEvents, events } from '../../src/collectors/events/events.ts';
import type { EventsFacts } from '../../src/collectors/events/families.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const { signal } = new AbortController();

/** Creates a service that lists `rows`, and a reader of it. */
async function setUp() {
  const state = { rows: [] as object[] };
  const service = await serve((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
    const rows = searchParams.has('source') ? [] : state.rows;
    json(response, { [pathname.endsWith('events') ? 'events' : 'messages']: rows });
  });
  const { reader, counts } = createTestClient(service.url, { clock: { ...systemClock, now: () => NOW } });
  return { state, reader, counts };
}

const WORKFLOW = { workflowRunId: 'wfr_1', failureFunctionState: 'CALLBACK_INPROGRESS' };

it.each([{ createdAt: 'soon' }, { createdAt: 1_767_225_600 }, { responseStatus: '5xx' }, { maxRetries: -1 }])(
  'a walk with the values %j is partial, counts the row once, detects removals and tracks no callbacks',
  async odd => {
    const { state, reader, counts } = await setUp();
    const collector = createDlq(dlq.options.parse({ breakdowns: ['state'] }));
    let memory = collector.restore(new Map());
    async function walk() {
      let facts: DlqFacts | undefined;
      let isPartial = false;
      let rest: Parameters<typeof collector.observe>[0]['walk'];
      do {
        const step = await collector.observe({ api: reader, round: 'full', now: NOW, memory, walk: rest, signal });
        isPartial ||= step.isPartial ?? false;
        ({ memory, facts } = step.fold(memory));
        rest = step.more;
      } while (rest !== undefined);
      const { messages, left } = facts?.selections.get('all') ?? {};
      return {
        isPartial,
        messages,
        left: left?.unknown,
        isTrackedPartly: facts?.tracked?.isPartial,
        kinds: facts?.kinds.count,
      };
    }
    const [good, gone] = [
      { dlqId: 'a', responseStatus: 500, ...WORKFLOW },
      { dlqId: 'b', responseStatus: 500 },
    ];
    state.rows = [good, gone];
    expect(await walk()).toEqual({ isPartial: false, messages: 2, left: 0, isTrackedPartly: false, kinds: 1 });
    state.rows = [good, { dlqId: 'c', ...odd }];
    expect(await walk()).toEqual({ isPartial: true, messages: 2, left: 1, isTrackedPartly: true, kinds: 1 });
    expect(counts.rejected).toEqual({ dlq: 1 });
    state.rows = [good, { dlqId: 'c' }];
    expect(await walk()).toMatchObject({ isPartial: false, messages: 2, left: 1, isTrackedPartly: false });
  },
);

it.each([{ responseStatus: '' }, { notBefore: 'later' }, { nextDeliveryTime: NOW * 1000 }])(
  'a read of the event log with the values %j is partial, and counts the event',
  async odd => {
    const { state, reader, counts } = await setUp();
    const collector = createEvents(events.options.parse({}), {});
    const event = { messageId: 'm', state: 'ERROR', time: NOW - 1000 };
    state.rows = [event, { ...event, messageId: 'n', ...odd }];
    let memory = collector.restore(new Map());
    let facts: EventsFacts | undefined;
    let isPartial = false;
    let rest: Parameters<typeof collector.observe>[0]['walk'];
    do {
      const step = await collector.observe({ api: reader, round: 'tail', now: NOW, memory, walk: rest, signal });
      isPartial ||= step.isPartial ?? false;
      ({ memory, facts } = step.fold(memory));
      rest = step.more;
    } while (rest !== undefined);
    expect(isPartial).toBe(true);
    expect(facts?.gauges?.recent.error).toBe(2);
    expect(counts.rejected).toEqual({ events: 1 });
  },
);
