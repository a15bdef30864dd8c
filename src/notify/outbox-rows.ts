import { readRow } from '../store/errors.ts';
import type { Store } from '../store/store.ts';
import type { Group } from './group.ts';
import type { Due, LastNotification } from './groups.ts';
import type { Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';
import type { RowKey } from './receiver-queue.ts';

export interface ChangeRow {
  readonly notifier: string;
  readonly member: number;
  readonly at: number;
  readonly notice: Notice;
}

/** A stored notification of a group, as sent at the first attempt. The row is agent-wide. */
export interface GroupedRow extends Pick<Due, 'id' | 'at' | 'notices'> {
  readonly notifier: string;
  readonly member: number;
  readonly group: Group;
  readonly takes: readonly RowKey[];
}

/** Rows of an account from an earlier process, oldest first. */
export interface StoredRows {
  readonly account: string;
  readonly grouped: readonly { readonly key: string; readonly row: GroupedRow }[];
  readonly changes: readonly { readonly key: string; readonly row: ChangeRow }[];
  /** Rows with the time of each group's last notification. */
  readonly notified: readonly (readonly [key: string, value: string])[];
  readonly lastNumber: number;
}

export const CHANGE = 'alerts/outbox/';
export const GROUPED = 'alerts/grouped/';
const TOLD = 'alerts/told/';

export const notificationKey = ({ notifier, member }: Pick<Receiver, 'notifier' | 'member'>, id: string) =>
  `${TOLD}${notifier}/${member}/${id}`;

export function parseNotification(key: string, value: string) {
  const [notifier = '', member, id = ''] = key.slice(TOLD.length).split('/');
  const { at } = readRow<Pick<LastNotification, 'at'>>(key, value);
  return { notifier, member: Number(member), id, at };
}

const numberOf = (key: string) => Number(key.slice(key.lastIndexOf('/') + 1));

export async function readStoredRows(store: Pick<Store, 'scan'>, account: string): Promise<StoredRows> {
  async function numbered<T>(prefix: string) {
    const rows = [...(await store.scan(account, prefix))].map(([key, value]) => {
      return { key, number: numberOf(key), row: readRow<T>(key, value) };
    });
    return rows.sort((a, b) => a.number - b.number);
  }
  // Read grouped rows first: the changes that a grouped row replaces are deleted after it is stored.
  const grouped = await numbered<GroupedRow>(GROUPED);
  const changes = await numbered<ChangeRow>(CHANGE);
  const lastNumber = Math.max(0, grouped.at(-1)?.number ?? 0, changes.at(-1)?.number ?? 0);
  return { account, grouped, changes, notified: [...(await store.scan(account, TOLD))], lastNumber };
}
