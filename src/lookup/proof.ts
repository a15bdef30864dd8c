import type { DeliveryEvent, EventState } from '../model/message.ts';
import type { WorkflowRun } from '../model/service.ts';
import {
  createFilterProof,
  createReportedFields,
  type DlqQuery,
  type EventQuery,
  type Filterable,
  FilterContradiction,
  type ListPage,
  type RunQuery,
} from '../upstream/api.ts';

/** Compares the rows of a list with the filters of the request. */
export interface Proof<Row> {
  /** Throws FilterContradiction if a row does not match. */
  add(page: Pick<ListPage<Row>, 'rows' | 'rejected'>): void;
  /** Whether every row is readable, has the filtered fields and matches. */
  isProven(): boolean;
}

export const NO_PROOF: Proof<unknown> = { add: () => undefined, isProven: () => true };

export function proveEntries(match: DlqQuery): Proof<Filterable> {
  // Without filters, unreadable rows contradict nothing.
  if (Object.keys(match).length === 0) return NO_PROOF;
  const proof = createFilterProof(match, createReportedFields([match]));
  return {
    add({ rows, rejected }) {
      proof.add(rows, rejected);
      const contradiction = proof.contradiction();
      if (contradiction) throw contradiction;
    },
    isProven: proof.isProven,
  };
}

const IN_PROGRESS: readonly EventState[] = ['active', 'retry', 'error'];

const isInState = (state: EventState, wanted: string) =>
  wanted === 'IN_PROGRESS' ? IN_PROGRESS.includes(state) : state === wanted.toLowerCase();

const asEntry = ({ messageId, url, topic, schedule, queue, time }: DeliveryEvent): Filterable => ({
  messageId,
  url,
  topicName: topic,
  schedule,
  queue,
  createdAt: time,
  enteredAt: time,
});

/** Creates a proof that compares states itself, and passes the other fields of the rows to `proof`. */
function proveStates<Row extends { readonly state: string }>(
  proof: Proof<Filterable>,
  toEntry: (row: Row) => Filterable,
  isWanted: ((state: Row['state']) => boolean) | undefined,
): Proof<Row> {
  let unknown = 0;
  return {
    add({ rows, rejected }) {
      proof.add({ rows: rows.map(toEntry), rejected });
      if (isWanted === undefined) return;
      unknown += rejected;
      let others = 0;
      for (const { state } of rows) {
        if (state === 'unknown') unknown += 1;
        else if (!isWanted(state)) others += 1;
      }
      if (others === 0) return;
      const count = `${others} of ${rows.length} rows do not match`;
      throw new FilterContradiction(`the service ignores the parameter state: ${count}`);
    },
    isProven: () => unknown === 0 && proof.isProven(),
  };
}

export const proveEvents = ({ state: wanted, ...match }: EventQuery): Proof<DeliveryEvent> =>
  proveStates(
    proveEntries(match as DlqQuery),
    asEntry,
    wanted === undefined ? undefined : state => isInState(state, wanted),
  );

/** The API does not document whether `fromDate` and `toDate` refer to a run's creation or end: either time may match. */
export const proveRuns = ({ state: wanted, runs: _, ...match }: RunQuery): Proof<WorkflowRun> =>
  proveStates(
    proveEntries(match),
    ({ url, createdAt, completedAt }) => ({ url, createdAt, enteredAt: completedAt }),
    wanted === undefined ? undefined : state => state === wanted,
  );
