import type { Explanation } from '../auto-cancel/account.ts';
import type { AutoCancel } from '../auto-cancel/accounts.ts';
import { mayExist } from '../auto-cancel/context.ts';
import { modeOf } from '../auto-cancel/evaluate.ts';
import type { JournalLine } from '../auto-cancel/journal.ts';
import { type AutoCancelOptions, rulesFor } from '../auto-cancel/options.ts';
import { sentenceOf, skipText } from '../auto-cancel/words.ts';
import type { Clock } from '../kit/clock.ts';
import { createYielder } from '../kit/yielder.ts';
import { type AutoCancelNumbers, BREAKERS } from '../model/journal.ts';
import type { AutoCancelView, Candidate } from './api/auto-cancel.ts';
import type { Views } from './served.ts';
import { iso, sum, withNulls } from './values.ts';

export interface AutoCancelViewDeps {
  readonly config: { readonly autoCancel: AutoCancelOptions };
  readonly autoCancel: AutoCancel | undefined;
  readonly journal: AutoCancel['journal'];
  readonly clock: Clock;
}

const MAX_LISTED = 200;
const MAX_LINES = 100;
/** Age up to which journal lines are shown (ms). */
const JOURNAL_OVER = 7 * 24 * 3_600_000;

type One = AutoCancel['accounts'][number];

/** Converts an explanation. Its first finding is that of the rule that decides. */
function candidateOf({ paused: _, firstSeenAt, lastSeenAt, findings, ...found }: Explanation): Candidate {
  return {
    ...withNulls(found),
    firstSeenAt: iso(firstSeenAt),
    lastSeenAt: iso(lastSeenAt),
    verdict: findings[0]?.verdict ?? 'no_match',
    reason: findings[0]?.reason ?? null,
    heldText: found.held === undefined ? null : skipText(found.held),
  };
}

function brakesOf({
  account: { account, brake, journal, wouldOpen },
  numbers: { candidates, budget },
  tracked: { length: tracked },
}: Shown): AutoCancelView['accounts'][number] {
  const { pause: paused } = brake;
  const { state } = journal;
  return {
    account,
    paused: paused ? { by: paused.by, reason: paused.reason, at: iso(paused.at) } : null,
    breakers: BREAKERS.map(breaker => {
      const open = state.breakers.get(breaker);
      return { breaker, open: open !== undefined, since: open ? iso(open.at) : null, reason: open?.reason ?? null };
    }),
    wouldOpen: wouldOpen() ?? null,
    budgetRemaining: budget.find(({ rule }) => rule === undefined)?.left ?? null,
    candidates: sum(candidates.values()),
    tracked,
    unresolved: [...state.actions.values()].filter(({ isOpen }) => isOpen).length,
  };
}

/** An account, its numbers, and its tracked callbacks. */
interface Shown {
  readonly account: One;
  readonly numbers: AutoCancelNumbers;
  readonly tracked: readonly { readonly isStuck: boolean; explain(): Explanation }[];
}

function rulesOf(
  { autoCancel }: AutoCancelViewDeps['config'],
  accounts: readonly Shown[],
  now: number,
): AutoCancelView['rules'] {
  // An expired rule must stay expired even if the clock is set back.
  const latest = accounts.reduce((last, { account }) => Math.max(last, account.journal.state.lastAt), now);
  const asked = new Set(accounts.flatMap(({ account }) => rulesFor(autoCancel, account.account)));
  return autoCancel.rules
    .filter(rule => asked.has(rule))
    .map(rule => {
      const { name, expires } = rule;
      const left = accounts.flatMap(({ numbers }) => numbers.budget.find(each => each.rule === name)?.left ?? []);
      return {
        name,
        mode: modeOf(rule, autoCancel.mode, latest),
        expires: expires === null ? null : iso(expires),
        candidates: sum(accounts.map(({ numbers }) => numbers.candidates.get(name) ?? 0)),
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

/** Creates the view of auto-cancel, which has no accounts while auto-cancel is off. */
export function createAutoCancelView(deps: AutoCancelViewDeps): Views['autoCancel'] {
  const { config, autoCancel, journal, clock } = deps;
  const { mode, stopFile } = config.autoCancel;
  return async only => {
    const now = clock.now();
    const turns = createYielder();
    const accounts: Shown[] = [];
    for (const account of autoCancel?.accounts ?? []) {
      if (only !== undefined && account.account !== only) continue;
      const tracked = [];
      for (const callback of account.tracked()) {
        tracked.push(callback);
        await turns.pass();
      }
      accounts.push({ account, numbers: account.numbers(), tracked });
      await turns.pass();
    }
    const tracked = accounts.flatMap(each => each.tracked);
    const candidates: Candidate[] = [];
    for (const { explain } of tracked.toSorted((a, b) => Number(b.isStuck) - Number(a.isStuck)).slice(0, MAX_LISTED)) {
      candidates.push(candidateOf(explain()));
      await turns.pass();
    }
    return {
      now: iso(now),
      mode,
      stopFile: { path: stopFile, present: mayExist(stopFile) },
      rules: rulesOf(config, accounts, now),
      accounts: accounts.map(brakesOf),
      candidates,
      tracked: tracked.length,
      journal: (await journal(now - JOURNAL_OVER, MAX_LINES, only)).map(lineOf).reverse(),
    };
  };
}
