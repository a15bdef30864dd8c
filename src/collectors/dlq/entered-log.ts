import type { LogBatch, LogLine } from '../../kit/log.ts';
import { boundText } from '../../kit/text.ts';
import type { DlqEntry } from '../../model/message.ts';

/** Maximum number of new entries that a running walk keeps for the log. Further entries count as omitted. */
const MAX_FOUND = 10_000;
const MAX_TEXT = 200;

/** Log lines of entries counted as new. */
export type EnteredLog = ReturnType<typeof createEnteredLog>;

const textOf = (text: string | undefined) => (text === undefined ? undefined : boundText(text, MAX_TEXT));

/** Returns the log line of an entry: ids and routing, but no path, query or body, which may contain secrets. */
function lineOf(entry: DlqEntry): LogLine {
  const { dlqId, messageId, enteredAt, url, method, responseStatus, queue, topic, schedule, workflowRunId } = entry;
  return {
    fields: {
      dlqId: textOf(dlqId),
      messageId: textOf(messageId),
      enteredAt: enteredAt === undefined ? undefined : new Date(enteredAt).toISOString(),
      urlHost: textOf(URL.parse(url ?? '')?.host || undefined),
      method: textOf(method),
      responseStatus,
      queue: textOf(queue),
      topic: textOf(topic),
      schedule: textOf(schedule),
      workflowRunId: textOf(workflowRunId),
    },
    message: 'new dead letter',
  };
}

export function createEnteredLog() {
  const newcomers = new Map<bigint, LogLine>();
  let lines: LogLine[] = [];
  let omitted = 0;
  return {
    /** Keeps a new entry of a running walk until the walk counts or drops it. */
    found(id: bigint, entry: DlqEntry): void {
      if (newcomers.size < MAX_FOUND) newcomers.set(id, lineOf(entry));
    },
    dropFound: (): void => newcomers.clear(),
    /** Adds the line of a counted entry. `entry` defaults to the walk's own row. */
    entered(id: bigint, entry?: DlqEntry): void {
      const line = entry ? lineOf(entry) : newcomers.get(id);
      newcomers.delete(id);
      if (line) lines.push(line);
      else omitted += 1;
    },
    drain(): LogBatch {
      const batch = { lines, omitted };
      [lines, omitted] = [[], 0];
      return batch;
    },
  };
}
