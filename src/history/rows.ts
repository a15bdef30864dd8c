import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { Store } from '../store/store.ts';
import { type Chunk, decodeChunk, valuesOf } from './chunk.ts';

/** The hours of an account in the store, by number since the Unix epoch; with what waits for the next commit. */
export interface Rows {
  /** Undefined where there is none. Rejects with StoreError, as all that read. */
  text(hour: number): Promise<string | undefined>;
  /** Undefined where there is none, or a damaged one; `isChecked`: each value is looked at. */
  load(hour: number, isChecked: boolean): Promise<Chunk | undefined>;
  /** What a row holds; undefined where it is damaged. */
  decode(hour: number, text: string, isChecked: boolean): Chunk | undefined;
  /** Bytes of each row, its key included. */
  sizes(): Promise<Map<number, number>>;
  /** Puts a row into the next commit; null deletes it. */
  set(hour: number, text: string | null): void;
  unsaved(): readonly Change[];
  saved(changes: readonly Change[]): void;
  /** Logs the first damage. */
  damaged(hour: number, error: unknown): void;
}

export interface RowsDeps {
  readonly account: string;
  readonly store: Pick<Store, 'scan' | 'sizes'>;
  readonly log: Pick<Log, 'warn'>;
  /** Gives one string for equal ones. */
  share(text: string): string;
}

const PREFIX = 'history/';
const KEY = /^history\/(\d{8})$/;
const keyOf = (hour: number) => `${PREFIX}${String(hour).padStart(8, '0')}`;
/** Bytes of a row; its text is ASCII. */
export const sizeOf = (text: string): number => keyOf(0).length + text.length;

export function createRows({ account, store, log, share }: RowsDeps): Rows {
  const unsaved = new Map<string, string | null>();
  let isDamageKnown = false;

  function damaged(hour: number, error: unknown): void {
    const fields = { account, key: keyOf(hour), error: String(error) };
    if (!isDamageKnown) log.warn(fields, 'a damaged hour of the history is left out');
    isDamageKnown = true;
  }

  function decode(hour: number, text: string, isChecked: boolean): Chunk | undefined {
    try {
      const chunk = decodeChunk(text);
      if (isChecked) valuesOf(chunk, () => true);
      return { ...chunk, names: chunk.names.map(share) };
    } catch (error) {
      damaged(hour, error);
      return undefined;
    }
  }

  async function text(hour: number): Promise<string | undefined> {
    const key = keyOf(hour);
    const waiting = unsaved.get(key);
    return waiting === undefined ? (await store.scan(account, key)).get(key) : (waiting ?? undefined);
  }

  return {
    text,
    decode,
    damaged,
    async load(hour, isChecked) {
      const found = await text(hour);
      return found === undefined ? undefined : decode(hour, found, isChecked);
    },
    async sizes() {
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
    set: (hour, value) => void unsaved.set(keyOf(hour), value),
    unsaved: () => [...unsaved].map(([key, value]) => ({ key, value })),
    saved(changes) {
      for (const { key, value } of changes) if (unsaved.get(key) === value) unsaved.delete(key);
    },
  };
}
