import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { AutoCancelNumbers, FinalOutcome } from '../model/journal.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import type { ActionRef } from './journal-state.ts';
import { urlOf } from './journal-state.ts';

/** Logs, traces and counts changed decisions about failure callbacks. */
export type DecisionLog = ReturnType<typeof createDecisionLog>;

/** Delay before stale walks are logged (ms): one failed walk is normal. */
const LOG_STALE_AFTER = 10 * 60_000;

export function createDecisionLog(deps: {
  readonly account: string;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Log;
  readonly tracer: Tracer;
}) {
  const { account, clock, log, tracer } = deps;
  const last = new Map<string, string>();
  const counts = new Map<string, AutoCancelNumbers['skips'][number]>();
  let staleSince: number | undefined;
  let loggedReason: string | undefined;

  function mark(fields: Readonly<Record<string, string>>): void {
    void tracer.span('auto-cancel decision', fields, async () => {});
  }

  return {
    skipped({ action, rule, mode, target, finding }: EvaluatedCallback, reason: string): void {
      if (last.get(action) === reason) return;
      last.set(action, reason);
      const key = `${rule.name}\0${reason}`;
      counts.set(key, { rule: rule.name, reason, count: (counts.get(key)?.count ?? 0) + 1 });
      const fields = { account, action, rule: rule.name, mode, verdict: finding.verdict, reason };
      mark(fields);
      const line = { ...fields, dlqId: target.dlqId };
      if (finding.verdict === 'stuck') log.info(line, 'stuck failure callback skipped');
      else log.debug(line, 'failure callback skipped');
    },
    ended({ action, rule, mode, target }: ActionRef, outcome: FinalOutcome): void {
      last.set(action, outcome);
      const fields = { account, action, rule, mode, outcome };
      mark(fields);
      const { dlqId, workflowRunId, responseStatus } = target;
      const line = { ...fields, dlqId, workflowRunId, url: urlOf(target), responseStatus };
      if (outcome === 'planned') log.info(line, 'stuck failure callback would be cancelled');
      else if (outcome === 'gave_up' || outcome === 'rejected') log.error(line, 'failure callback was not cancelled');
      else log.info(line, 'auto-cancel action ended');
    },
    /** Logs why data is stale if that persists; undefined if the data is fresh. Call it regularly. */
    stale(reason: string | undefined): void {
      if (reason === undefined) {
        if (loggedReason !== undefined) log.info({ account }, 'auto-cancel data is complete and fresh again');
        staleSince = loggedReason = undefined;
        return;
      }
      staleSince ??= clock.monotonic();
      const lasted = clock.monotonic() - staleSince;
      if (lasted < LOG_STALE_AFTER || loggedReason === reason) return;
      loggedReason = reason;
      const fields = { account, reason, seconds: Math.floor(lasted / 1000) };
      log.warn(fields, 'auto-cancel data is stale or incomplete: cancels are suspended until a complete walk');
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
