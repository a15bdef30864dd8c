import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { AutoCancelNumbers, FinalOutcome } from '../model/journal.ts';
import type { Reader } from '../upstream/api.ts';
import { SENDING_ENDED } from './brake.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import type { Journal } from './journal.ts';
import { type Action, type ActionRef, attemptsThatCount, endLine, refOf, urlOf } from './journal-state.ts';
import { callbackStateOf, rereadEntry } from './look-up.ts';

/** Logs and counts changed decisions about failure callbacks. */
export type DecisionLog = ReturnType<typeof createDecisionLog>;

export function createDecisionLog({ account, log }: { readonly account: string; readonly log: Log }) {
  const last = new Map<string, string>();
  const counts = new Map<string, AutoCancelNumbers['skips'][number]>();

  return {
    skipped({ action, rule, mode, target, finding }: EvaluatedCallback, reason: string): void {
      if (last.get(action) === reason) return;
      last.set(action, reason);
      const key = `${rule.name}\0${reason}`;
      counts.set(key, { rule: rule.name, reason, count: (counts.get(key)?.count ?? 0) + 1 });
      const { verdict } = finding;
      const line = { account, action, rule: rule.name, mode, verdict, reason, dlqId: target.dlqId };
      if (verdict === 'stuck') log.info(line, 'stuck failure callback skipped');
      else log.debug(line, 'failure callback skipped');
    },
    ended({ action, rule, mode, target }: ActionRef, outcome: FinalOutcome): void {
      last.set(action, outcome);
      const { dlqId, workflowRunId, responseStatus } = target;
      const line = { account, action, rule, mode, outcome, dlqId, workflowRunId, url: urlOf(target), responseStatus };
      if (outcome === 'planned') log.info(line, 'stuck failure callback would be cancelled');
      else if (outcome === 'gave_up' || outcome === 'rejected') log.error(line, 'failure callback was not cancelled');
      else log.info(line, 'auto-cancel action ended');
    },
    /** Drops the decisions about actions that are not in the set. */
    retainOnly(actions: ReadonlySet<string>): void {
      for (const action of last.keys()) if (!actions.has(action)) last.delete(action);
    },
    /** Returns the last reason to skip an action, or its last outcome. */
    last: (action: string): string | undefined => last.get(action),
    skips: (): AutoCancelNumbers['skips'] => [...counts.values()],
  };
}

export interface SettleDeps {
  readonly journal: Journal;
  readonly reader: Reader;
  readonly decisions: Pick<DecisionLog, 'ended'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  stamp(): number;
}

/** Delays of the read-backs after a response (ms). Later read-backs follow complete walks. */
const READ_BACK_DELAYS = [0, 5_000, 15_000, 60_000];
const WITHOUT_WALKS = 3_600_000;
const READ_BACK_RETRY = 60_000;
/** Maximum number of cancels per episode that may have reached the service. */
const MAX_ATTEMPTS = 2;

interface ReadBacks {
  readonly attempt: number;
  /** Start of the delays (monotonic time). */
  readonly from: number;
  made: number;
  notBefore: number;
}

export type Settling = ReturnType<typeof createSettling>;

export function createSettling({ journal, reader, decisions, clock, stamp }: SettleDeps) {
  const readBacks = new Map<string, ReadBacks>();
  let retriable = new Set<string>();

  function readBacksOf({ id, attempts }: Action): ReadBacks {
    const attempt = attempts.length;
    const current = readBacks.get(id);
    if (current?.attempt === attempt) return current;
    const from = clock.monotonic();
    const created = { attempt, from, made: 0, notBefore: from };
    readBacks.set(id, created);
    return created;
  }

  async function end(action: Action, outcome: FinalOutcome, reason: string, unproven = false): Promise<void> {
    const ref = refOf(action);
    const line = endLine(ref, outcome, reason, stamp());
    // Deleting the row is safe: requests and read-backs of an account never overlap.
    await journal.append([unproven ? { ...line, unproven } : line], { changes: [SENDING_ENDED] });
    readBacks.delete(action.id);
    decisions.ended(ref, outcome);
  }

  /** Rereads a callback if a read-back is due. Returns whether another attempt is permitted. */
  async function settle(action: Action, isWalked: boolean, signal: AbortSignal): Promise<boolean> {
    const answer = action.attempts.at(-1)?.response;
    const done = (...how: [outcome: FinalOutcome, reason: string, unproven?: boolean]) =>
      end(action, ...how).then(() => false);
    // A blind action is open only if the process died after the intent.
    if (action.blind) return done('unknown_final', 'no_answer');
    const plan = readBacksOf(action);
    const isExhausted = plan.made >= READ_BACK_DELAYS.length;
    const isLate = clock.monotonic() >= plan.notBefore + (isExhausted ? WITHOUT_WALKS : 0);
    const isDue = isLate || (isExhausted && isWalked && clock.monotonic() >= plan.notBefore);
    if (!isDue) return isExhausted;
    let state: ReturnType<typeof callbackStateOf>;
    try {
      state = callbackStateOf(await rereadEntry(reader, action.target, signal));
    } catch (error) {
      if (signal.aborted) throw error;
      plan.notBefore = clock.monotonic() + READ_BACK_RETRY;
      return false;
    }
    if (state === 'canceled') return done('confirmed', 'read_canceled', answer?.kind !== 'accepted');
    if (state === 'success' || state === 'fail') return done('superseded', `read_${state}`);
    if (state === 'gone') return done('gone', 'not_listed');
    plan.made += 1;
    const next = READ_BACK_DELAYS[plan.made];
    plan.notBefore = next === undefined ? clock.monotonic() : plan.from + next;
    if (plan.made < READ_BACK_DELAYS.length) return false;
    if (state !== 'in_progress') return done('gave_up', `read_${state}`);
    if (answer?.kind === 'refused') return done('gave_up', 'refused_while_in_progress');
    if (attemptsThatCount(action) >= MAX_ATTEMPTS) return done('gave_up', 'still_in_progress');
    return true;
  }

  return {
    /** `isWalked`: whether a walk has completed since the last decision. */
    async readBack(isWalked: boolean, signal: AbortSignal): Promise<void> {
      const open = [...journal.state.actions.values()].filter(({ isOpen }) => isOpen);
      retriable = new Set();
      for (const action of open) if (await settle(action, isWalked, signal)) retriable.add(action.id);
    },
    /** Whether the last read-back found the callback in progress, so that another attempt is permitted. */
    mayRetry: (action: string): boolean => retriable.has(action),
    /** Gives up actions of ended episodes: a callback in progress is then another run. */
    async giveUpLost(evaluated: ReadonlySet<string>): Promise<void> {
      for (const id of retriable) {
        const action = journal.state.actions.get(id);
        if (action?.isOpen && !evaluated.has(id)) await end(action, 'gave_up', 'not_tracked');
      }
    },
    end,
  };
}
