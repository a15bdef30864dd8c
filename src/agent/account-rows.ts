import type { Recorder } from '../history/recorder.ts';
import type { Change } from '../model/change.ts';
import type { CollectorState, Freshness } from '../scheduler/board.ts';
import { readRow } from '../store/errors.ts';
import type { Store } from '../store/store.ts';
import type { DailyUsage } from '../upstream/budget.ts';
import type { AccountList } from '../upstream/missing-lists.ts';

/** Stored state of an account, except the rows of its collectors. */
export interface StoredAccount {
  readonly spent?: DailyUsage | undefined;
  readonly freshness?: Readonly<Record<string, Readonly<Record<string, Freshness>>>> | undefined;
  /** Whether the service rejected the token in the last conclusive check. */
  readonly tokenRejected?: boolean | undefined;
  /** Lists that the service has returned, even empty ones. */
  readonly lists?: readonly AccountList[] | undefined;
}

const KEYS: Readonly<Record<keyof StoredAccount, string>> = {
  spent: 'budget/spent',
  freshness: 'account-state/freshness',
  tokenRejected: 'account-state/token-rejected',
  lists: 'account-state/lists',
};

/** Reads the stored state of an account. Rejects with StoreError. */
export async function openAccountRows(store: Store, account: string) {
  const stored = new Map([...(await store.scan(account, 'budget/')), ...(await store.scan(account, 'account-state/'))]);
  const names = Object.keys(KEYS) as (keyof StoredAccount)[];
  const values = names.map(name => {
    const text = stored.get(KEYS[name]);
    return [name, text === undefined ? undefined : readRow(KEYS[name], text)];
  });
  return {
    before: Object.fromEntries(values) as StoredAccount,
    /** Commits changes of the state together with `more` rows. Rejects with StoreError. */
    async save(known: StoredAccount, more: readonly Change[]): Promise<void> {
      const changes = names.flatMap(name => {
        const value = JSON.stringify(known[name]);
        return value === undefined || value === stored.get(KEYS[name]) ? [] : [{ key: KEYS[name], value }];
      });
      if (changes.length + more.length === 0) return;
      await store.commit(account, [...changes, ...more]);
      for (const { key, value } of changes) stored.set(key, value);
    },
  };
}

interface UpkeepDeps {
  readonly states: readonly CollectorState[];
  readonly rows: Pick<Awaited<ReturnType<typeof openAccountRows>>, 'save'>;
  readonly history: Pick<Recorder, 'unsaved' | 'saved'>;
  known(): Omit<StoredAccount, 'freshness'>;
}

/** Returns functions that save the state of an account. */
export function createUpkeep({ states, rows, history, known }: UpkeepDeps) {
  let savedTurn: string | undefined;

  /** Returns a fingerprint of state that must be saved at once: a process in a crash loop never reaches a periodic save. */
  function turn(): string {
    const rounds = states.flatMap(state => Object.values(state.freshness()));
    const { tokenRejected, lists } = known();
    return JSON.stringify([tokenRejected, lists, rounds.map(({ tryingSince }) => tryingSince === undefined)]);
  }

  /** Saves the state in one commit. Rejects with StoreError. */
  async function save(): Promise<void> {
    savedTurn = turn();
    const freshness = states.map(state => [state.collector, state.freshness()] as const);
    // Do not wait before this commit: the commits of all accounts then share one transaction and one fsync.
    const recorded = history.unsaved();
    await rows.save({ ...known(), freshness: Object.fromEntries(freshness) }, recorded);
    history.saved(recorded);
  }

  return {
    save,
    /** Saves urgent changes. Never rejects. */
    async afterRound(): Promise<void> {
      // If this fails, the next periodic save retries it and reports the failure.
      if (turn() !== savedTurn) await save().catch(() => undefined);
    },
  };
}
