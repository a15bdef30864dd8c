import type { Recorder } from '../history/recorder.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { CollectorState } from '../scheduler/board.ts';
import { type StoredRounds, toStored } from '../scheduler/freshness.ts';
import type { StoredProblems } from '../status/problem-log.ts';
import type { Store } from '../store/store.ts';
import type { Spent } from '../upstream/budget.ts';

/** What an account leaves to the next process, beside the rows of its collectors. */
export interface LastKnown {
  /** Of the day's budget. */
  readonly spent?: Spent | undefined;
  /** By collector. */
  readonly freshness?: Readonly<Record<string, StoredRounds>> | undefined;
  /** By the service's last conclusive answer. */
  readonly tokenRejected?: boolean | undefined;
  /** Since when what is wrong is. */
  readonly problems?: StoredProblems | undefined;
}

export interface AccountRows {
  readonly before: LastKnown;
  /** Commits what differs from what is stored, and `more` rows with it. Rejects with StoreError. */
  save(known: LastKnown, more?: readonly Change[]): Promise<void>;
}

const KEYS: Readonly<Record<keyof LastKnown, string>> = {
  spent: 'budget/spent',
  freshness: 'account-state/freshness',
  tokenRejected: 'account-state/token-rejected',
  problems: 'account-state/problems',
};

/** Rejects with StoreError. */
export async function openAccountRows(store: Store, account: string): Promise<AccountRows> {
  const stored = new Map([...(await store.scan(account, 'budget/')), ...(await store.scan(account, 'account-state/'))]);
  const names = Object.keys(KEYS) as (keyof LastKnown)[];
  const read = (name: keyof LastKnown) => {
    const text = stored.get(KEYS[name]);
    return text === undefined ? undefined : JSON.parse(text);
  };
  return {
    before: {
      spent: read('spent'),
      freshness: read('freshness'),
      tokenRejected: read('tokenRejected'),
      problems: read('problems'),
    },
    async save(known, more = []) {
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

export interface UpkeepDeps {
  readonly account: string;
  readonly states: readonly CollectorState[];
  readonly rows: AccountRows;
  readonly history: Pick<Recorder, 'unsaved' | 'saved'>;
  /** What is known beside the freshness of the data. */
  known(): Omit<LastKnown, 'freshness'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

/** Saves what an account knows, and logs what becomes too old to be shown. */
export function createUpkeep({ account, states, rows, history, known, clock, log }: UpkeepDeps): {
  /** `more`: rows of others that are committed with it. */
  save(more?: readonly Change[]): Promise<void>;
  /** Never throws. */
  afterRound(): Promise<void>;
} {
  const withdrawn = new Set<CollectorState>();
  let savedTurn: string | undefined;

  function logWithdrawals(): void {
    for (const state of states) {
      const isWithdrawn = state.status().withdrawn;
      if (isWithdrawn === withdrawn.has(state)) continue;
      const fields = { account, collector: state.collector };
      if (isWithdrawn) {
        withdrawn.add(state);
        log.warn(fields, 'stale data is withdrawn: its gauges are no longer shown');
      } else {
        withdrawn.delete(state);
        log.info(fields, 'data is fresh again: its gauges are shown');
      }
    }
  }

  /** What must not wait for the next regular save: a process that crashes again and again would never come to it. */
  function turn(): string {
    const rounds = states.flatMap(state => Object.values(state.freshness()));
    return JSON.stringify([known().tokenRejected, rounds.map(({ tryingFor }) => tryingFor === undefined)]);
  }

  async function save(more: readonly Change[] = []): Promise<void> {
    logWithdrawals();
    savedTurn = turn();
    const freshness = states.map(state => [state.collector, toStored(state.freshness(), clock.now())] as const);
    // With what is committed anyway: one transaction for all accounts, one fsync.
    const recorded = history.unsaved();
    const last = { ...known(), freshness: Object.fromEntries(freshness) };
    await rows.save(last, [...recorded, ...more]);
    history.saved(recorded);
  }

  return {
    save,
    async afterRound() {
      logWithdrawals();
      // What the store does not take now is in the next regular save, which reports it.
      if (turn() !== savedTurn) await save().catch(() => undefined);
    },
  };
}
