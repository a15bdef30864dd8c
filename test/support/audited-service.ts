/** The emulated service and the collectors that audit its flow control, in one process with a simulated clock. */
import { createEvents, type EventsFacts } from '../../src/collectors/events/events.ts';
import {
  createFlowControl,
  type FlowControlFacts,
  flowControl,
} from '../../src/collectors/flow-control/flow-control.ts';
import { collectOptions } from '../../src/collectors/index.ts';
import { createEmulatedClock } from '../../src/emulator/clock.ts';
import type { Destination } from '../../src/emulator/destinations.ts';
import { type Dialect, dialectWith } from '../../src/emulator/dialect.ts';
import { keyRow } from '../../src/emulator/routes/flow-control.ts';
import { EmulatorState } from '../../src/emulator/state.ts';
import type { Reader } from '../../src/upstream/api.ts';
import { toDeliveryEvent, toFlowControlEntry } from '../../src/upstream/wire.ts';

const START = Date.UTC(2026, 4, 4, 12);
const SIGNAL = new AbortController().signal;

export interface AuditedService {
  readonly state: EmulatorState;
  now(): number;
  /** Advances time; both collectors read every 15 s. */
  advance(ms: number): Promise<void>;
  audited(key: string): ReturnType<NonNullable<FlowControlFacts['audited']>['get']>;
  facts(): FlowControlFacts | undefined;
  /** Restarts the process on the same store after a downtime of `awayMs`. */
  restart(awayMs: number): Promise<void>;
  /** Makes the reads of both collectors fail until `time`. */
  failUntil(time: number): void;
}

export interface AuditedOptions {
  readonly seed: number;
  readonly destinations: readonly Destination[];
  readonly dialect?: Partial<Dialect>;
  readonly scenario?: string;
}

/** Returns a destination with a flow-control key. */
export function keyed(key: string, fields: Partial<Destination['fields']>, rest: Partial<Destination>): Destination {
  const common = { url: `https://example.com/${key}`, method: 'POST', header: {}, maxRetries: 1, topicId: '' };
  return {
    fields: { ...common, flowControlKey: key, ...fields },
    everyMs: 10_000,
    takesMs: 5000,
    flaky: 0,
    doomed: 0,
    statuses: [500],
    ...rest,
  };
}

export function createAuditedService(options: AuditedOptions): AuditedService {
  const { seed, destinations, scenario = 'steady' } = options;
  const clock = createEmulatedClock({ now: () => START, monotonic: () => 0, sleep: async () => undefined }, 0);
  const dialect = dialectWith({ flowControlFields: 'all', flowControlZeros: 'omitted', ...options.dialect });
  const state = new EmulatorState({ clock, seed, scenario, history: 0, dlqEntries: 0, destinations, dialect });
  const reader = readerOf(state);
  const collect = collectOptions.parse({});
  let rows = new Map<string, string>();
  let agent = start();
  let failing = 0;

  function start() {
    let shown: EventsFacts | undefined;
    const events = createEvents({ ...collect.events }, { isAudited: true });
    const flow = createFlowControl(flowControl.options.parse({}), { attempts: () => shown?.attempts, now: clock.now });
    return { events, flow, memory: events.restore(rows), keys: flow.restore(rows), shown: () => shown, show };
    function show(facts: EventsFacts | undefined) {
      shown = facts ?? shown;
    }
  }
  let facts: FlowControlFacts | undefined;

  async function readLog(round: 'tail' | 'sweep'): Promise<void> {
    const { events } = agent;
    let walk: Awaited<ReturnType<typeof events.observe>>['more'];
    const now = clock.now();
    do {
      const step = await events.observe({ api: reader, round, now, memory: agent.memory, walk, signal: SIGNAL });
      if (step.idle) return;
      const folded = step.fold(agent.memory);
      for (const { key, value } of folded.changes) value === null ? rows.delete(key) : rows.set(key, value);
      if (step.more === undefined) agent.show(folded.facts);
      walk = step.more;
    } while (walk !== undefined);
  }

  async function readKeys(): Promise<void> {
    const step = await agent.flow.observe({
      api: reader,
      round: 'list',
      now: clock.now(),
      memory: agent.keys,
      walk: undefined,
      signal: SIGNAL,
    });
    const folded = step.fold(agent.keys);
    agent.keys = folded.memory;
    facts = folded.facts;
    for (const { key, value } of folded.changes) if (value !== null) rows.set(key, value);
  }

  let elapsed = 0;
  return {
    state,
    now: clock.now,
    async advance(ms) {
      for (const end = elapsed + ms; elapsed < end; elapsed += 5000) {
        clock.advance(5000);
        if (clock.now() < failing) continue;
        if (elapsed % 15_000 === 0) await readLog('tail');
        if (elapsed % 15_000 === 5000) await readKeys();
        if (elapsed % 300_000 === 10_000) await readLog('sweep');
      }
    },
    audited: key => facts?.audited?.get(key),
    facts: () => facts,
    async restart(awayMs) {
      clock.advance(awayMs);
      rows = new Map(rows);
      agent = start();
      await readLog('tail');
      await readKeys();
    },
    failUntil(time) {
      failing = time;
    },
  };
}

/** Returns a reader that reads the emulated service's data and maps rows as the client does. */
function readerOf(state: EmulatorState): Reader {
  return {
    async *eventPages({ fromDate: from = 0, toDate: to = 0 }) {
      const { log, now } = state.current();
      const { logView } = state;
      const unlisted = logView.unlisted(now);
      const rows: NonNullable<ReturnType<typeof toDeliveryEvent>>[] = [];
      const range = { from, to: Math.min(to, logView.until(now)), order: 'earliestFirst' } as const;
      log.walk(range, (event, time) => {
        if (unlisted?.(event, time)) return true;
        const { message, state, nextDeliveryTime, responseStatus } = event;
        const { url, flowControlKey } = message.fields;
        const row = {
          time,
          state,
          messageId: message.messageId,
          url,
          flowControlKey,
          nextDeliveryTime,
          responseStatus,
        };
        const mapped = toDeliveryEvent(row);
        if (mapped) rows.push(mapped);
        return true;
      });
      yield { rows, rejected: 0 };
    },
    async flowControl(_signal: AbortSignal, take: (row: unknown) => void) {
      for (const [name, key] of state.keys()) {
        const entry = toFlowControlEntry(keyRow(state, name, key, 'waitListSize'));
        if (entry) take(entry);
      }
      return 0;
    },
    // Other methods are unused here.
  } as unknown as Reader;
}
