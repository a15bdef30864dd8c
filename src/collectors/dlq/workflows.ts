import { hash64 } from '../../kit/hash.ts';
import type { DlqEntry } from '../../model/message.ts';
import { isUnanswerable, type ListPage } from '../../upstream/api.ts';
import { PAGES_A_STEP } from '../collector.ts';
import type { DlqMemory } from './memory.ts';
import { asFailure } from './reading.ts';
import type { RoundContext, Walk } from './rounds.ts';

/** A separate read of failed workflow runs. Some services list runs or callback states only there. */
export interface WorkflowReading {
  readonly pages: AsyncIterator<ListPage<DlqEntry>>;
  readonly signal: AbortSignal;
  hasBegun: boolean;
  /** Whether a page contained a run or a callback state that the walk of the queue lacks. */
  isWorthwhile: boolean;
}

export interface WorkflowRead {
  readonly rows: readonly DlqEntry[];
  readonly isLast: boolean;
  /** Whether any row was unreadable or incomplete. */
  readonly isPartial: boolean;
  /** Whether the read failed midway, so that the walk does not update failure callbacks. */
  readonly isCutOff?: boolean;
}

export function startWorkflows({ api, signal }: RoundContext): WorkflowReading {
  return { pages: api.dlqPages({ source: 'workflow' }, signal), signal, hasBegun: false, isWorthwhile: false };
}

/** Reads the next pages. Stops after one page if the service ignores the filter or lists nothing new. */
export async function readWorkflows(
  reading: WorkflowReading,
  { callbacks }: Walk,
  { all }: DlqMemory,
): Promise<WorkflowRead> {
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

/** Folds the pages of one step. The last one completes the walk. `now`: start of the round (ms since the Unix epoch). */
export function foldWorkflows(memory: DlqMemory, walk: Walk, read: WorkflowRead, now: number): void {
  const { callbacks } = walk;
  callbacks?.add(read.rows);
  walk.isPartial ||= read.isPartial;
  if (!read.isLast) return;
  if (read.isCutOff || walk.isPartial) memory.callbacks.markPartial();
  else callbacks?.end(now);
}
