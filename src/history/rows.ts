import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { Store } from '../store/store.ts';
import { type Chunk, decodeChunk } from './chunk.ts';
import { MAX_HOURS } from './hours.ts';

/** Stored hours of an account, with uncommitted changes. Hours count from the Unix epoch. */
export type HistoryRows = ReturnType<typeof createHistoryRows>;

export interface RowsDeps {
  readonly account: string;
  readonly store: Pick<Store, 'scan' | 'sizes'>;
  readonly log: Pick<Log, 'warn'>;
}

const PREFIX = 'history/';
const KEY = /^history\/(\d{8})$/;
/** Row of the hourly values, which are independent of the limits for samples. */
export const HOURLY = 'hourly';
type Row = number | typeof HOURLY;
const keyOf = (row: Row) => PREFIX + (row === HOURLY ? row : String(row).padStart(8, '0'));

export function createHistoryRows({ account, store, log }: RowsDeps) {
  const unsaved = new Map<string, string | null>();
  let isDamageLogged = false;

  async function text(key: string): Promise<string | undefined> {
    const waiting = unsaved.get(key);
    return waiting === undefined ? (await store.scan(account, key)).get(key) : (waiting ?? undefined);
  }

  return {
    /** Returns undefined for a missing or damaged row. Logs damage once. Rejects with StoreError. */
    async load(row: Row): Promise<Chunk | undefined> {
      const key = keyOf(row);
      const found = await text(key);
      try {
        return found === undefined ? undefined : decodeChunk(found, row === HOURLY ? MAX_HOURS : undefined);
      } catch (error) {
        if (!isDamageLogged) log.warn({ account, key, error: String(error) }, 'damaged history row skipped');
        isDamageLogged = true;
        return undefined;
      }
    },
    async sizes(): Promise<Map<number, number>> {
      const known = new Map<number, number>();
      const note = (key: string, size: number | undefined) => {
        const hour = Number(KEY.exec(key)?.[1]);
        if (size === undefined) known.delete(hour);
        else if (!Number.isNaN(hour)) known.set(hour, key.length + size);
      };
      for (const [key, size] of await store.sizes(account, PREFIX)) note(key, size);
      for (const [key, value] of unsaved) note(key, value?.length);
      return known;
    },
    /** Null deletes the row. */
    set: (row: Row, value: string | null): void => void unsaved.set(keyOf(row), value),
    unsaved: (): readonly Change[] => [...unsaved].map(([key, value]) => ({ key, value })),
    saved(changes: readonly Change[]): void {
      for (const { key, value } of changes) if (unsaved.get(key) === value) unsaved.delete(key);
    },
  };
}
