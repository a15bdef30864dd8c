import type { AutoCancel as AccountAutoCancel } from '../../auto-cancel/index.ts';
import type { AccountView } from '../../http/api/account.ts';
import type { ShownAlert } from '../../http/served.ts';
import { createTurns, type Turns } from '../../kit/turns.ts';
import type { Change } from '../../model/change.ts';
import type { AccountStatus } from '../../model/status.ts';
import type { AutoCancel } from '../auto-cancel.ts';
import { toAlert } from './account.ts';
import { type Told as AutoCancelTold, toldOf } from './auto-cancel.ts';
import type { Mirror } from './mirror.ts';
import type { Row } from './overview-rows.ts';
import { encodeTold, KEYS, type Summary, type Whole } from './summary.ts';

/** What this replica tells the others of the accounts that it holds. */
export interface Summaries {
  /** Makes what is due of all accounts. Other work gets its turn meanwhile. Never rejects. */
  prepare(): Promise<void>;
  /** To be committed with what is saved of the account anyway. */
  changesOf(account: string): readonly Change[];
  /** They are committed. */
  saved(account: string, changes: readonly Change[]): void;
}

export interface SummariesDeps {
  readonly mirror: Pick<Mirror, 'now' | 'self'>;
  readonly accounts: readonly { readonly name: string; shownStatus(): AccountStatus }[];
  /** Of these accounts, in any order. */
  readonly rows: () => Promise<readonly Row[]>;
  readonly view: (account: string) => AccountView | undefined;
  /** Of all of them. */
  readonly alerts: () => readonly ShownAlert[];
  /** Undefined while it is off. */
  readonly autoCancel: AutoCancel | undefined;
  /** What was told before, under another configuration. */
  readonly known: KnownSummaries;
  readonly failed: (account: string, error: unknown) => void;
}

/** What was stored last, for as long as there is that account. */
export type KnownSummaries = WeakMap<object, Known>;

interface Known {
  readonly signature: string;
  readonly hasCandidates: boolean;
}

/** Its summary is stored at every second save, all of it at every fifth; at once where something else is wrong. */
const [ROW_EVERY, WHOLE_EVERY] = [2, 5];
/** Failure callbacks of an account that others are told of. */
const MOST_CANDIDATES = 100;

type One = SummariesDeps['accounts'][number];

/** What must not wait for the next regular time. */
function signatureOf(
  { up, problems, row }: Row,
  alerts: readonly ShownAlert[],
  own: AccountAutoCancel | undefined,
): string {
  const { candidates, actions, breakers, isPaused } = own?.numbers() ?? {};
  return JSON.stringify([
    up,
    row.state,
    problems.map(({ kind, subject, severity }) => [kind, subject, severity]),
    alerts.map(({ state, labels, silencedBy }) => [state, labels, silencedBy]),
    [...(candidates ?? [])],
    actions,
    [...(breakers ?? [])],
    isPaused,
  ]);
}

function summaryOf(
  { row, up, problems }: Row,
  alerts: readonly ShownAlert[],
  status: AccountStatus,
  told: AutoCancelTold | undefined,
): Summary {
  return {
    row,
    up,
    problems: [...problems],
    alerts: alerts.map(toAlert),
    // As the API has it: what is undefined is left out.
    status: JSON.parse(JSON.stringify(status)),
    autoCancel: told
      ? { brakes: told.brakes, rules: [...told.rules], journalAt: told.journalAt, tracked: told.tracked }
      : null,
  };
}

/** Without what the summary has. */
function wholeOf(view: AccountView | undefined): Whole | undefined {
  if (!view) return undefined;
  const { replica: _, asOf: __, state, up, problems, alerts, rounds, ...whole } = view;
  return whole;
}

export function createSummaries(deps: SummariesDeps): Summaries {
  const { mirror, accounts, rows, view, alerts, autoCancel, known, failed } = deps;
  const acting = new Map(autoCancel?.accounts.map(each => [each.account, each]));
  const indices = new Map(accounts.map((account, index) => [account.name, { account, index }]));
  const waiting = new Map<string, { readonly changes: readonly Change[]; readonly known: Known }>();
  let turn = 0;

  /** What is due of an account; undefined: nothing. */
  async function dueOf(account: One, row: Row, index: number, all: readonly ShownAlert[], turns: Turns) {
    const { name } = account;
    const [own, before] = [acting.get(name), known.get(account)];
    const signature = signatureOf(row, all, own);
    const isDue = (every: number) => signature !== before?.signature || turn % every === index % every;
    if (!isDue(ROW_EVERY) && !isDue(WHOLE_EVERY)) return undefined;
    const told = own && (await toldOf(own, { stuck: MOST_CANDIDATES, others: MOST_CANDIDATES }, turns));
    const candidates = told?.candidates ?? [];
    const put = (key: string, body: unknown): Change => ({
      key,
      value: encodeTold({ at: mirror.now() ?? 0, by: mirror.self.id, body }),
    });
    const changes = [put(KEYS.summary, summaryOf(row, all, account.shownStatus(), told))];
    if (isDue(WHOLE_EVERY)) {
      changes.push(put(KEYS.whole, wholeOf(view(name))));
      if (candidates.length > 0) changes.push(put(KEYS.candidates, candidates));
    }
    // Also those of a replica before this one.
    const hadCandidates = before?.hasCandidates ?? true;
    if (hadCandidates && candidates.length === 0) changes.push({ key: KEYS.candidates, value: null });
    return { changes, known: { signature, hasCandidates: candidates.length > 0 } };
  }

  async function prepare(): Promise<void> {
    if (mirror.now() === undefined) return;
    turn += 1;
    const turns = createTurns();
    const shown = Map.groupBy(alerts(), ({ labels }) => labels.account);
    for (const row of await rows()) {
      const { account, index = 0 } = indices.get(row.row.account) ?? {};
      if (!account) continue;
      try {
        const due = await dueOf(account, row, index, shown.get(account.name) ?? [], turns);
        if (due) waiting.set(account.name, due);
      } catch (error) {
        failed(account.name, error);
      }
      await turns.pass();
    }
  }

  return {
    prepare,
    changesOf: account => waiting.get(account)?.changes ?? [],
    saved(account, changes) {
      const made = waiting.get(account);
      const one = indices.get(account)?.account;
      if (!made || !one || made.changes !== changes) return;
      known.set(one, made.known);
      waiting.delete(account);
    },
  };
}
