import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { LogLine } from '../../../src/kit/log.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';

export const START = 1_700_000_000_000;
export const DAY = 86_400_000;

interface Letter {
  readonly id: string;
  readonly enteredAt: number;
  readonly host: string;
}

/** Creates a queue and a collector that can be killed. Committed rows survive. */
export function createScene({
  page = 100,
  options = {},
  rows = new Map<string, string>(),
}: {
  page?: number;
  options?: object;
  rows?: Map<string, string>;
} = {}) {
  const queue = new Map<string, Letter>();
  let now = START;
  let number = 0;
  /** Number of successful requests before the service fails; undefined if it never fails. */
  let answers: number | undefined;
  async function* dlqPages({ fromDate = 0 }: DlqQuery) {
    const listed = [...queue.values()].filter(({ enteredAt }) => enteredAt >= Number(fromDate));
    for (let from = 0; ; from += page) {
      if (answers !== undefined && answers-- <= 0) throw new Error('the service fails');
      const rows = listed.slice(from, from + page).map(
        ({ id, enteredAt, host }) =>
          ({
            id,
            dlqId: id,
            messageId: `m-${id}`,
            enteredAt,
            url: `https://${host}/`,
            labels: [],
          }) as unknown as DlqEntry,
      );
      const isLast = from + page >= listed.length;
      yield { rows, rejected: 0, isLast };
      if (isLast) return;
    }
  }
  const api = { dlqPages } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({ fromDateMeans: 'entry', ...options }), {
    retention: DAY,
    isLogged: true,
  });
  const lines: LogLine[] = [];
  let omitted = 0;
  let memory = collector.restore(rows);
  return {
    queue,
    rows,
    lines,
    omitted: () => omitted,
    ids: () => lines.map(({ fields }) => (fields as { dlqId?: string }).dlqId),
    add(count: number, ...hosts: readonly string[]) {
      for (let each = 0; each < count; each += 1) {
        number += 1;
        const letter = { id: `${now}-${number}`, enteredAt: now, host: hosts[number % hosts.length] ?? 'a.example' };
        queue.set(letter.id, letter);
      }
    },
    remove(count: number) {
      for (const id of [...queue.keys()].slice(0, count)) queue.delete(id);
    },
    pass(ms: number) {
      now += ms;
    },
    kill() {
      memory = collector.restore(new Map(rows));
    },
    /**
     * Runs a round. `failsAfter`: number of requests that succeed. `killedAfter`: number of steps before the process is
     * killed. `between`: runs after the second step.
     */
    async round(
      round: string,
      {
        failsAfter,
        killedAfter,
        between,
      }: { failsAfter?: number; killedAfter?: number; between?: () => Promise<void> } = {},
    ) {
      answers = failsAfter;
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      for (let step = 0; ; step += 1) {
        if (step === killedAfter) return this.kill();
        if (step === 2) await between?.();
        const signal = new AbortController().signal;
        const observed = await collector.observe({ api, round, now, memory, walk, signal }).catch(() => undefined);
        if (!observed || observed.idle) return;
        const folded = observed.fold(memory);
        memory = folded.memory;
        // Rows and log lines share one commit.
        for (const { key, value } of folded.changes) value === null ? rows.delete(key) : rows.set(key, value);
        lines.push(...(folded.log?.lines ?? []));
        omitted += folded.log?.omitted ?? 0;
        walk = observed.more;
        if (!walk) return;
      }
    },
    facts: () => collector.recall?.(memory)?.selections.get('all'),
    /** Returns the counter of added entries by host. */
    byHost: (): Readonly<Record<string, number>> =>
      Object.fromEntries(collector.recall?.(memory)?.enteredByHost?.counts ?? []),
  };
}
