import { hash64 } from '../../kit/hash.ts';
import type { DlqEntry } from '../../model/message.ts';
import { isUnanswerable, type ListPage } from '../../upstream/api.ts';
import { PAGES_A_STEP } from '../collector.ts';
import type { Memory } from './memory.ts';
import { toFailure } from './reading.ts';
import type { RoundContext, Walk } from './rounds.ts';

/** Failed workflow runs, read by themselves: some services list them nowhere else, or only so with the state of their callback. */
export interface WorkflowReading {
  readonly pages: AsyncIterator<ListPage<DlqEntry>>;
  readonly signal: AbortSignal;
  hasBegun: boolean;
  /** A page had what the walk of the whole queue had not. */
  isWorthwhile: boolean;
}

export interface WorkflowRead {
  readonly rows: readonly DlqEntry[];
  readonly isLast: boolean;
  readonly rejected: number;
  readonly isUnknown?: boolean;
  /** It could not be read to the end: the walk says nothing of failure callbacks, and what is known of them stays. */
  readonly isCutOff?: boolean;
}

/** Complete walks that pass before a service that did not know the question is asked again. */
const UNASKED_WALKS = 12;

export function startWorkflows({ api, signal }: RoundContext): WorkflowReading {
  return { pages: api.dlqPages({ source: 'workflow' }, signal), signal, hasBegun: false, isWorthwhile: false };
}

/** Reads on. One page is enough if the service ignores the filter or lists nothing new. */
export async function readWorkflows(
  reading: WorkflowReading,
  { callbacks }: Walk,
  { all, unasked }: Memory,
): Promise<WorkflowRead> {
  const rows: DlqEntry[] = [];
  let rejected = 0;
  if (unasked > 0) return { rows, rejected, isLast: true };
  const isNews = ({ id, callbackState }: DlqEntry) =>
    callbackState === undefined ? !all.roster.has(hash64(id)) : !callbacks?.hasState(id);
  for (let count = 0; count < PAGES_A_STEP; count += 1) {
    // The queue itself was read well; this alone must not take its numbers away.
    const page = await reading.pages.next().catch(toFailure(reading.signal));
    if ('error' in page) {
      const isUnknown = !reading.hasBegun && isUnanswerable(page.error);
      return { rows, rejected, isLast: true, ...(isUnknown ? { isUnknown } : { isCutOff: true }) };
    }
    if (page.done) return { rows, rejected, isLast: true };
    reading.hasBegun = true;
    const { rows: listed, isLast } = page.value;
    rows.push(...listed);
    rejected += page.value.rejected;
    reading.isWorthwhile ||= listed.every(({ workflowRunId }) => workflowRunId !== undefined) && listed.some(isNews);
    // A page may be empty though more follow.
    if (isLast || (listed.length > 0 && !reading.isWorthwhile)) return { rows, rejected, isLast: true };
  }
  return { rows, rejected, isLast: false };
}

/** Folds the pages of one step; with the last of them the walk is complete. `now`: when it began, milliseconds since the Unix epoch. */
export function foldWorkflows(memory: Memory, walk: Walk, read: WorkflowRead, now: number): void {
  const { callbacks } = walk;
  callbacks?.take(read.rows);
  walk.isPartial ||= read.rejected > 0;
  if (!read.isLast) return;
  memory.unasked = read.isUnknown ? UNASKED_WALKS : Math.max(0, memory.unasked - 1);
  if (read.isCutOff || walk.isPartial) memory.callbacks.doubt();
  else callbacks?.end(now);
}
