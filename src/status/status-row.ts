import type { AutoCancel } from '../auto-cancel/accounts.ts';
import type { Clock } from '../kit/clock.ts';
import { createYielder } from '../kit/yielder.ts';
import type { Change } from '../model/change.ts';
import type { AccountStatus } from '../model/status.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import type { Store } from '../store/store.ts';
import { NOT_SHARED } from './api/parts.ts';
import { STATUS_VERSION, StatusRow } from './api/status-row.ts';
import { type AccountSnapshot, snapshotOf } from './auto-cancel.ts';
import type { OverviewRow } from './overview-rows.ts';

/** Key of the status row of each account, which its holder writes for the other replicas. */
export const STATUS_KEY = 'status';

/** Maximum size of a row (bytes). Lists are shortened to fit; counts stay exact. */
export const MAX_ROW = 16 * 1024;
/** Maximum size of the list of rules or of a collector's failed filters (bytes). */
const MAX_LIST = 2048;

export interface OwnStatus extends OverviewRow {
  readonly at: number;
  readonly publicUrl: string | null;
  readonly alerts: readonly ShownAlert[];
  readonly status: AccountStatus;
  readonly autoCancel: AccountSnapshot | undefined;
}

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

/** Returns the first entries that fit into a number of bytes. */
function fitting<T>(list: T[], bytes: number): T[] {
  let left = bytes;
  const end = list.findIndex(entry => {
    left -= bytesOf(entry) + 1;
    return left < 0;
  });
  return end === -1 ? list : list.slice(0, end);
}

const URGENCY: readonly ShownAlert['state'][] = ['firing', 'pending', 'resolved'];

/** Encodes a status row and shortens its lists to fit. Throws if this version could not decode the row. */
export function encodeStatus({ alerts, status, autoCancel, ...own }: OwnStatus): string {
  const urgent = alerts.toSorted((a, b) => URGENCY.indexOf(a.state) - URGENCY.indexOf(b.state));
  const all = StatusRow.parse({
    ...own,
    version: STATUS_VERSION,
    alerts: urgent,
    alertsTotal: alerts.length,
    alertsFiring: alerts.filter(({ state }) => state === 'firing').length,
    collectors: status.collectors,
    autoCancel: autoCancel ?? null,
  });
  for (const collector of all.collectors) {
    if (collector.failedFilters) collector.failedFilters = fitting(collector.failedFilters, MAX_LIST);
  }
  if (all.autoCancel) all.autoCancel.rules = fitting(all.autoCancel.rules, MAX_LIST);
  const free = MAX_ROW - bytesOf({ ...all, problems: [], alerts: [] });
  const listed = fitting(all.alerts, free - bytesOf(fitting(all.problems, free / 2)));
  return JSON.stringify({ ...all, problems: fitting(all.problems, free - bytesOf(listed)), alerts: listed });
}

export interface StatusSources {
  readonly accounts: readonly { readonly name: string; status(): AccountStatus }[];
  readonly rows: () => Promise<readonly OverviewRow[]>;
  readonly alerts: () => readonly ShownAlert[];
  readonly autoCancel: AutoCancel | undefined;
  readonly failed: (account: string, error: unknown) => void;
}

/** Returns the status rows to commit, by account. Omits rows that cannot be built. */
export async function statusChanges(
  of: StatusSources,
  { at, publicUrl }: Pick<OwnStatus, 'at' | 'publicUrl'>,
): Promise<ReadonlyMap<string, readonly Change[]>> {
  const turns = createYielder();
  const alerts = Map.groupBy(of.alerts(), ({ labels }) => labels.account);
  const accounts = new Map(of.accounts.map(each => [each.name, each]));
  const acting = new Map(of.autoCancel?.accounts.map(each => [each.account, each]));
  const changes = new Map<string, readonly Change[]>();
  for (const row of await of.rows()) {
    const name = row.row.account;
    const [account, own] = [accounts.get(name), acting.get(name)];
    if (!account) continue;
    try {
      const autoCancel = own && (await snapshotOf(own, { stuck: 0, others: 0 }, turns, NOT_SHARED));
      const shown = { alerts: alerts.get(name) ?? [], status: account.status(), autoCancel };
      changes.set(name, [{ key: STATUS_KEY, value: encodeStatus({ ...row, at, publicUrl, ...shown }) }]);
    } catch (error) {
      of.failed(name, error);
    }
    await turns.pass();
  }
  return changes;
}

/** Decodes a status row. Returns undefined if it is damaged or has another version. */
export function decodeStatus(text: string): StatusRow | undefined {
  try {
    return StatusRow.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export type StatusRows = ReturnType<typeof createStatusRows>;

/** Maximum age of a read that is reused (ms). */
const FRESH = 5000;
/** Maximum time that a request waits for the database before the response comes from memory (ms). */
const MAX_WAIT = 1000;

export function createStatusRows(store: Pick<Store, 'valuesOf'>, clock: Clock) {
  let rows: ReadonlyMap<string, StatusRow | 'unreadable'> = new Map();
  let readAt = Number.NEGATIVE_INFINITY;
  let waiting: Promise<void> | undefined;

  async function read(): Promise<void> {
    const turns = createYielder();
    const next = new Map<string, StatusRow | 'unreadable'>();
    for (const [account, text] of await store.valuesOf(STATUS_KEY)) {
      next.set(account, decodeStatus(text) ?? 'unreadable');
      await turns.pass();
    }
    rows = next;
  }

  function start(): Promise<void> {
    const ended = new AbortController();
    const reading = read()
      // Keep the last rows. The renewal of leases reports that the database is unavailable.
      .catch(() => undefined)
      .finally(() => {
        readAt = clock.monotonic();
        waiting = undefined;
        ended.abort();
      });
    return Promise.race([reading, clock.sleep(MAX_WAIT, ended.signal).catch(() => undefined)]);
  }

  return {
    /** `unreadable`: the row is damaged, or another version wrote it. */
    of: (account: string): StatusRow | 'unreadable' | undefined => rows.get(account),
    /** Reads the rows unless the last read is recent. Waits for at most `MAX_WAIT`. Never rejects. */
    async refresh(): Promise<void> {
      if (!waiting && clock.monotonic() - readAt < FRESH) return;
      waiting ??= start();
      await waiting;
    },
  };
}
