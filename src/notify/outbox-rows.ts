import type { Store } from '../store/store.ts';
import type { Group } from './group.ts';
import type { Due, Told } from './groups.ts';
import type { Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';
import type { RowKey } from './receiver-queue.ts';

export interface Row {
  readonly notifier: string;
  readonly member: number;
  readonly at: number;
  readonly notice: Notice;
}

/** A row of a group's account, without replicas of none: what is told of the group, as it was when it was first sent. */
export interface GroupedRow extends Pick<Due, 'id' | 'at' | 'notices'> {
  readonly notifier: string;
  readonly member: number;
  readonly group: Group;
  readonly takes: readonly RowKey[];
}

/** What an earlier process, or another replica, left of an account, the oldest first. */
export interface Left {
  readonly account: string;
  readonly grouped: readonly { readonly key: string; readonly row: GroupedRow }[];
  readonly changes: readonly { readonly key: string; readonly number: number; readonly row: Row }[];
  /** Keys and values of when groups were told. */
  readonly told: readonly (readonly [key: string, value: string])[];
  readonly lastNumber: number;
}

export const CHANGE = 'alerts/outbox/';
export const GROUPED = 'alerts/grouped/';
const TOLD = 'alerts/told/';

export const toldKey = ({ notifier, member }: Pick<Receiver, 'notifier' | 'member'>, id: string) =>
  `${TOLD}${notifier}/${member}/${id}`;

export function toldOf(key: string, value: string) {
  const [notifier = '', member, id = ''] = key.slice(TOLD.length).split('/');
  const { at } = JSON.parse(value) as Pick<Told, 'at'>;
  return { notifier, member: Number(member), id, at };
}

const numberOf = (key: string) => Number(key.slice(key.lastIndexOf('/') + 1));

export async function readLeft(store: Pick<Store, 'scan'>, account: string): Promise<Left> {
  async function numbered<T>(prefix: string) {
    const rows = [...(await store.scan(account, prefix))].map(([key, value]) => {
      return { key, number: numberOf(key), row: JSON.parse(value) as T };
    });
    return rows.sort((a, b) => a.number - b.number);
  }
  // Those first: the changes that one stands for are removed after it was stored.
  const grouped = await numbered<GroupedRow>(GROUPED);
  const changes = await numbered<Row>(CHANGE);
  const lastNumber = Math.max(0, grouped.at(-1)?.number ?? 0, changes.at(-1)?.number ?? 0);
  return { account, grouped, changes, told: [...(await store.scan(account, TOLD))], lastNumber };
}
