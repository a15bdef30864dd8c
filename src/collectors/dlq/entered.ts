import type { LogBatch, LogLine } from '../../kit/log.ts';
import { boundText, parseUrl } from '../../kit/text.ts';
import type { Change } from '../../model/change.ts';
import type { DlqEntry } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import { createTallies, type Stored } from '../tallies.ts';
import { NO_VALUE } from './kinds.ts';

/** Entries of a queue that were counted as new, by host. */
export type EnteredHosts = ReturnType<typeof createEnteredHosts>;

const KEYS = 'host/';
const MAX_LENGTH = 200;

export const isHostRow = (key: string) => key.startsWith(KEYS);

export const hostOfDestination = ({ url = '' }: Pick<DlqEntry, 'url'>): string =>
  boundText(parseUrl(url)?.host || NO_VALUE, MAX_LENGTH);

/** `max`: number of hosts with their own series; `rows`: the committed rows from `drainChanges`. */
export function createEnteredHosts(max: number, rows: ReadonlyMap<string, string> = new Map()) {
  const stored = [...rows]
    .filter(([key]) => isHostRow(key))
    .map(([key, value]) => [key.slice(KEYS.length), JSON.parse(value) as Stored<{ entered: number }>] as const);
  const tallies = createTallies({ prefix: KEYS, max, first: OTHER, create: () => ({ entered: 0 }) }, new Map(stored));
  const touched = new Set<string>();
  return {
    /** Adds entries. `now`: start of the round (ms since the Unix epoch). */
    add(host: string, now: number, entries = 1): void {
      const { row, tally } = tallies.of(host, now);
      tally.entered += entries;
      touched.add(row);
    },
    evict(now: number): void {
      for (const row of tallies.evict(now)) touched.add(row);
    },
    counts: (): ReadonlyMap<string, number> =>
      new Map([...tallies.copies()].map(([host, { entered }]) => [host, entered])),
    beyond: (): number => tallies.beyond,
    drainChanges(): Change[] {
      const changes = [...touched].map(key => {
        const tally = tallies.stored(key.slice(KEYS.length));
        return { key, value: tally ? JSON.stringify(tally) : null };
      });
      touched.clear();
      return changes;
    },
  };
}

/** Maximum number of new entries that a running walk keeps for the log. Further entries count as omitted. */
const MAX_FOUND = 10_000;

export type EnteredLog = ReturnType<typeof createEnteredLog>;

const textOf = (text: string | undefined) => (text === undefined ? undefined : boundText(text, MAX_LENGTH));

/** Returns the log line of an entry: ids and routing, but no path, query or body, which may contain secrets. */
function lineOf(entry: DlqEntry): LogLine {
  const { dlqId, messageId, enteredAt, url, method, responseStatus, queue, topic, schedule, workflowRunId } = entry;
  return {
    fields: {
      dlqId: textOf(dlqId),
      messageId: textOf(messageId),
      enteredAt: enteredAt === undefined ? undefined : new Date(enteredAt).toISOString(),
      urlHost: textOf(parseUrl(url ?? '')?.host || undefined),
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
