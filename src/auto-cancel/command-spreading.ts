import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { ANSWER, COMMAND, type Command, commandRow, read, STALE, type Taken } from './commands.ts';

/** Row of a command: the accounts that are to answer it. */
export const ASKED = 'asked/';
export const askedRow = z.strictObject({ at: z.number(), accounts: z.array(z.string()) });

/** Milliseconds by which the clocks of two replicas may differ. */
const SKEW = 600_000;

/** A command as it waits for one account. */
export interface TakenByAccount extends Taken {
  readonly account: string;
}

/** What waits for replicas that share the store: commands of which it is not said yet who is to answer, and those of accounts. */
export interface WaitingCommands {
  readonly unspread: readonly Taken[];
  readonly ofAccounts: readonly TakenByAccount[];
  /** Rows that are none, and commands for which no operator waits any more. */
  readonly dropped: readonly string[];
}

type Read = Pick<Store, 'scan'>;

/** Commands in the order in which they were given. */
export async function readCommands(store: Read, now: number): Promise<WaitingCommands> {
  const unspread: Taken[] = [];
  const ofAccounts: TakenByAccount[] = [];
  const dropped: string[] = [];
  for (const [key, value] of await store.scan(NO_ACCOUNT, COMMAND)) {
    const row = read(commandRow, value);
    const [, id = '', account] = /^([^/]*)(?:\/(.*))?$/s.exec(key.slice(COMMAND.length)) ?? [];
    if (!row || (row.takeUntil !== null && now > row.takeUntil + SKEW)) dropped.push(key);
    else if (account === undefined) unspread.push({ id, at: row.at, command: row.command });
    else ofAccounts.push({ id, at: row.at, command: row.command, account });
  }
  const byTime = (a: Taken, b: Taken) => a.at - b.at || (a.id < b.id ? -1 : 1);
  return { unspread: unspread.sort(byTime), ofAccounts: ofAccounts.sort(byTime), dropped };
}

const targetsOf = (command: Command, configured: readonly string[]) =>
  command.account !== undefined ? configured.filter(name => name === command.account) : configured;

/** Rows that make one command one of each account, after all that were made so before. `at`: milliseconds since the Unix epoch. */
function spreadChanges(
  { id, command }: Taken,
  takeUntil: number | null,
  configured: readonly string[],
  at: number,
): Change[] {
  const accounts = targetsOf(command, configured);
  const row: z.infer<typeof commandRow> = { at, takeUntil, command };
  const asked: z.infer<typeof askedRow> = { at, accounts: [...accounts] };
  return [
    { key: COMMAND + id, value: null },
    { key: ASKED + id, value: JSON.stringify(asked) },
    ...accounts.map(account => ({ key: `${COMMAND}${id}/${account}`, value: JSON.stringify(row) })),
  ];
}

/**
 * What the one replica does that holds what is of no account: commands become those of every configured account, and what has
 * expired is removed. Rejects with StoreError.
 */
export async function spreadCommands(
  store: Pick<Store, 'scan' | 'commit'>,
  { unspread, ofAccounts, dropped }: WaitingCommands,
  configured: readonly string[],
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const now = clock.now();
  let last = Math.max(0, ...ofAccounts.map(({ at }) => at));
  for (const taken of unspread) {
    last = Math.max(now, last + 1);
    await store.commit(NO_ACCOUNT, spreadChanges(taken, now, configured, last));
  }
  // Accounts that are no longer configured have no replica that obeys.
  const orphans = ofAccounts.filter(({ account, at }) => !configured.includes(account) && Math.abs(now - at) > STALE);
  const removed = [
    ...dropped,
    ...orphans.map(({ id, account }) => `${COMMAND}${id}/${account}`),
    ...(await stale(store, now)),
  ];
  if (removed.length === 0) return;
  await store.commit(
    NO_ACCOUNT,
    removed.map(key => ({ key, value: null })),
  );
  log.info({ rows: removed.length }, 'commands and answers that expired were dropped');
}

const timed = z.object({ at: z.number() });

/** Answers that were not fetched. A clock that was set back makes it look as if they came later. */
async function stale(store: Read, now: number): Promise<string[]> {
  const rows = [...(await store.scan(NO_ACCOUNT, ANSWER)), ...(await store.scan(NO_ACCOUNT, ASKED))];
  return rows.flatMap(([key, value]) => {
    const at = read(timed, value)?.at ?? Number.NEGATIVE_INFINITY;
    return Math.abs(now - at) > STALE ? key : [];
  });
}
