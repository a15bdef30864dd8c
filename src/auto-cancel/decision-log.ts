import type { Log } from '../kit/log.ts';
import type { AutoCancelNumbers, FinalOutcome } from '../model/journal.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import { type ActionRef, urlOf } from './journal-state.ts';

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
