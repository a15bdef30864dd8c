/** Default facts of collectors. A test overrides the facts that it checks. */
import { createLogTally } from '../../src/collectors/events/tally.ts';
import type { DlqFacts, EventsFacts, FlowControlFacts, SelectionFacts } from '../../src/collectors/index.ts';
import type { Visible } from '../../src/scheduler/board.ts';

/** Returns facts of a complete, committed round. */
export const complete = <Facts>(facts: Facts): Visible<Facts> => ({ now: facts, committed: facts });

/** Returns facts of a queue or of a filter on it. */
export const selection = (facts: Partial<SelectionFacts>): SelectionFacts => ({
  key: '',
  messages: undefined,
  oldestEntered: undefined,
  entered: 0,
  left: { expired: 0, removed: 0, unknown: 0 },
  isProven: true,
  isContradicted: false,
  ...facts,
});

/** Returns facts of a dead-letter queue. */
export const dlqFacts = (facts: Partial<DlqFacts>): DlqFacts => ({
  selections: new Map(),
  breakdowns: new Map(),
  beyondCap: new Map(),
  callbacks: undefined,
  kinds: { count: undefined, largest: [], others: 0, appeared: 0 },
  newest: [],
  longest: [],
  foundByRescan: 0,
  enteredByHost: undefined,
  tracked: undefined,
  suspected: undefined,
  endedCallbacks: { success: 0, fail: 0, canceled: 0 },
  oldestInProgress: undefined,
  ...facts,
});

/** Returns facts of an event log. */
export const eventsFacts = (facts: Partial<EventsFacts>): EventsFacts => ({
  gauges: undefined,
  windowMs: 300_000,
  since: undefined,
  log: createLogTally(),
  destinations: new Map(),
  schedules: new Map(),
  doubleStarts: new Map(),
  beyondCap: 0,
  queues: { from: Number.POSITIVE_INFINITY, deliveries: new Map() },
  labelled: { counters: true, histograms: false },
  ...facts,
});

/** Returns facts of flow-control keys. */
export const flowControlFacts = (facts: Partial<FlowControlFacts>): FlowControlFacts => ({
  keys: undefined,
  shown: [],
  beyondCap: 0,
  beyondCapWaiting: 0,
  limits: new Map(),
  ...facts,
});
