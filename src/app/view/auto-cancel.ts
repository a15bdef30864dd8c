import { heldText, mayBeThere, modeOf, sentenceOf } from '../../auto-cancel/index.ts';
import { rulesFor } from '../../auto-cancel/options.ts';
import type { Config } from '../../config/schema.ts';
import type { AutoCancelView, Candidate } from '../../http/api/auto-cancel.ts';
import type { Views } from '../../http/served.ts';
import type { Clock } from '../../kit/clock.ts';
import { createTurns, type Turns } from '../../kit/turns.ts';
import { type AutoCancelNumbers, BREAKERS } from '../../model/journal.ts';
import type { AutoCancel, Explanation, JournalLine } from '../auto-cancel.ts';

export interface AutoCancelViewDeps {
  readonly config: Config;
  /** Undefined while it is off. */
  readonly autoCancel: AutoCancel | undefined;
  readonly clock: Clock;
}

const MOST_CANDIDATES = 200;
const MOST_LINES = 100;
/** Milliseconds of the journal that are shown. */
const JOURNAL_OVER = 7 * 24 * 3_600_000;

type One = AutoCancel['accounts'][number];
type Brakes = AutoCancelView['accounts'][number];

const iso = (at: number) => new Date(at).toISOString();

function candidateOf(found: Explanation): Candidate {
  const { firstSeenAt, lastSeenAt, snapshots, findings, held = null, attempts, mayApprove } = found;
  return {
    account: found.account,
    dlqId: found.dlqId ?? null,
    messageId: found.messageId ?? null,
    action: found.action ?? null,
    url: found.url ?? null,
    workflowUrl: found.workflowUrl ?? null,
    firstSeenAt: iso(firstSeenAt),
    lastSeenAt: iso(lastSeenAt),
    snapshots,
    owner: found.owner ?? null,
    findings: findings.map(({ predicates, ...finding }) => ({ ...finding, predicates: [...predicates] })),
    held,
    heldText: held === null ? null : heldText(held),
    attempts,
    outcome: found.outcome ?? null,
    mayApprove,
  };
}

/** Those of what the accounts track that are shown, and how many there are. Other work gets its turn meanwhile. */
async function candidatesOf(
  accounts: readonly One[],
  turns: Turns,
): Promise<Pick<AutoCancelView, 'candidates' | 'tracked'>> {
  const [stuck, others]: Candidate[][] = [[], []];
  let tracked = 0;
  for (const account of accounts) {
    for (const { isStuck, explain } of account.tracked()) {
      tracked += 1;
      const list = isStuck ? stuck : others;
      if (list && list.length < MOST_CANDIDATES) list.push(candidateOf(explain()));
      await turns.pass();
    }
  }
  return { tracked, candidates: [...(stuck ?? []), ...(others ?? [])].slice(0, MOST_CANDIDATES) };
}

function brakesOf({ account, journal: { state } }: One, { candidates, budget }: AutoCancelNumbers): Brakes {
  const { paused } = state;
  return {
    account,
    paused: paused ? { by: paused.by, reason: paused.reason, at: iso(paused.at) } : null,
    breakers: BREAKERS.map(breaker => {
      const open = state.breakers.get(breaker);
      return {
        breaker,
        open: open !== undefined,
        since: open ? iso(open.at) : null,
        reason: open?.reason ?? null,
      };
    }),
    budgetRemaining: budget.find(({ rule }) => rule === undefined)?.left ?? null,
    candidates: [...candidates.values()].reduce((sum, count) => sum + count, 0),
    unresolved: [...state.actions.values()].filter(({ isOpen }) => isOpen).length,
  };
}

function rulesOf(
  { autoCancel }: Config,
  accounts: readonly One[],
  numbers: readonly AutoCancelNumbers[],
  now: number,
): AutoCancelView['rules'] {
  // An expired rule does not come to life again because the clock was set back.
  const latest = accounts.reduce((last, { journal }) => Math.max(last, journal.state.lastAt), now);
  const isAsked = (name: string) =>
    accounts.some(each => rulesFor(autoCancel, each.account).some(r => r.name === name));
  return autoCancel.rules
    .filter(({ name }) => isAsked(name))
    .map(rule => {
      const { name, expires } = rule;
      const left = numbers.flatMap(({ budget }) => budget.filter(each => each.rule === name).map(each => each.left));
      return {
        name,
        mode: modeOf(rule, autoCancel.mode, latest),
        expires: expires === null ? null : iso(expires),
        candidates: numbers.reduce((sum, { candidates }) => sum + (candidates.get(name) ?? 0), 0),
        budgetRemaining: left.length > 0 ? Math.min(...left) : null,
      };
    });
}

function lineOf(line: JournalLine): AutoCancelView['journal'][number] {
  return {
    at: iso(line.at),
    account: line.account,
    action: line.action ?? null,
    step: line.step,
    rule: 'rule' in line ? line.rule : null,
    id: 'target' in line ? line.target.id : null,
    text: sentenceOf(line),
  };
}

/** What is shown of auto-cancel: while it is off, nothing but that. */
export function createAutoCancelView({ config, autoCancel, clock }: AutoCancelViewDeps): Views['autoCancel'] {
  const { mode, stopFile } = config.autoCancel;
  return async only => {
    const now = clock.now();
    const accounts = (autoCancel?.accounts ?? []).filter(({ account }) => (only ?? account) === account);
    const turns = createTurns();
    const [brakes, numbers]: [Brakes[], AutoCancelNumbers[]] = [[], []];
    for (const account of accounts) {
      const own = account.numbers();
      numbers.push(own);
      brakes.push(brakesOf(account, own));
      await turns.pass();
    }
    const journal = (await autoCancel?.journal(now - JOURNAL_OVER, MOST_LINES, only)) ?? [];
    return {
      now: iso(now),
      mode,
      stopFile: { path: stopFile, present: mayBeThere(stopFile) },
      rules: rulesOf(config, accounts, numbers, now),
      accounts: brakes,
      ...(await candidatesOf(accounts, turns)),
      journal: journal.map(lineOf).reverse(),
    };
  };
}
