import { ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { unlessAborted } from '../kit/clock.ts';
import { type LogOrigins, toLogRecord } from './log-records.ts';
import { MOST_TOGETHER, type RecordQueue, type RecordRow } from './record-queue.ts';
import type { Sender } from './sender.ts';

/** Loading this file takes megabytes: it is imported only where log records are sent. */

/** Sends log records from the store. */
export interface LogExport {
  /** Sends what waits, and removes what the receiver took. Rejects with StoreError; what it does not take waits on. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when the request that is under way, if any, has come to an end, and what it carried is removed. */
  close(): Promise<void>;
}

export interface LogExportDeps {
  readonly version: string;
  /** Attributes of this agent. */
  readonly resource: Readonly<Record<string, string>>;
  readonly queue: Pick<RecordQueue, 'withRecords' | 'read' | 'remove'>;
  readonly sender: Pick<Sender, 'isDue' | 'send'>;
  /** Names of the accounts whose records are sent. */
  accounts(): readonly string[];
  /** Whether this process may send them still: another replica may hold the account now. */
  isHeld(account: string): boolean;
  /** Ends a request that is under way. */
  readonly signal: AbortSignal;
}

/** The next rows of one request, taken out of `rows`. */
function takeBatch(rows: RecordRow[]): RecordRow[] {
  let count = rows[0]?.count ?? 0;
  let length = 1;
  for (; length < rows.length; length += 1) {
    count += rows[length]?.count ?? 0;
    if (count > MOST_TOGETHER) break;
  }
  return rows.splice(0, length);
}

/** What happens to messages has the resource of their traces but for where it was read. */
const OF_MESSAGES = { 'service.name': 'message-delivery', 'telemetry.source': 'dead-letter-queue' };

function originsOf({ version, resource }: Pick<LogExportDeps, 'version' | 'resource'>): LogOrigins {
  const scope = { name: 'delivery-watch', version };
  return {
    messages: { resource: resourceFromAttributes(OF_MESSAGES), scope },
    agent: { resource: resourceFromAttributes(resource), scope },
  };
}

export function createLogExport(deps: LogExportDeps): LogExport {
  const { queue, sender, isHeld } = deps;
  const origins = originsOf(deps);
  /** The request that was sent last: until its records are removed, or not taken. */
  let underWay: Promise<unknown> = Promise.resolve();

  /** After a crash between the two the same records are sent once more, each with the same identity. */
  async function deliver(account: string, rows: readonly RecordRow[]): Promise<boolean> {
    const records = rows.flatMap(row => row.records()).map(record => toLogRecord(account, record, origins));
    const body = ProtobufLogsSerializer.serializeRequest(records);
    if (!body) return false;
    const { outcome } = await sender.send({ body, items: records.length }, deps.signal);
    if (outcome === 'failed') return false;
    await queue.remove(account, rows);
    return true;
  }

  /** Whether the receiver takes more. */
  async function exportOf(account: string, signal: AbortSignal): Promise<boolean> {
    const rows = [...(await queue.read(account))];
    while (rows.length > 0) {
      if (signal.aborted || !sender.isDue()) return false;
      if (!isHeld(account)) return true;
      const delivering = deliver(account, takeBatch(rows));
      underWay = delivering.catch(() => false);
      const isTaken = await unlessAborted(delivering, signal).catch(error => {
        if (signal.aborted) return false;
        throw error;
      });
      if (!isTaken) return false;
    }
    return true;
  }

  return {
    async run(signal) {
      // What comes back from another replica, NO_ACCOUNT too, may have records that were made there.
      for (const account of queue.withRecords(deps.accounts().filter(isHeld))) {
        if (signal.aborted || !sender.isDue()) return;
        if (isHeld(account) && !(await exportOf(account, signal))) return;
      }
    },
    async close() {
      await underWay;
    },
  };
}
