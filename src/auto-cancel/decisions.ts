import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { FinalOutcome, JournalTarget } from '../model/journal.ts';
import type { Judged, Mode } from './candidates.ts';

/** What was decided about each failure callback: told once, when it changes, as a log line, a span and a count. */
export interface Decisions {
  /** Nothing is done about it, for this reason. */
  skipped(judged: Judged, reason: string): void;
  /** An action has ended. */
  ended(
    action: { readonly action: string; readonly rule: string; readonly mode: Mode; readonly target: JournalTarget },
    outcome: FinalOutcome,
  ): void;
  /** Callbacks that are no longer tracked are told of anew should they come back. */
  forgetAllBut(actions: ReadonlySet<string>): void;
  /** Decisions to do nothing, since this process began. */
  skips(): readonly { readonly rule: string; readonly reason: string; readonly count: number }[];
}

export function createDecisions({
  account,
  log,
  tracer,
}: {
  readonly account: string;
  readonly log: Log;
  readonly tracer: Tracer;
}): Decisions {
  const last = new Map<string, string>();
  const counts = new Map<string, { rule: string; reason: string; count: number }>();

  /** A span has no length: it marks the moment. */
  function mark(fields: Readonly<Record<string, string>>): void {
    void tracer.span('auto-cancel decision', fields, async () => {});
  }

  return {
    skipped({ action, rule, mode, target, finding }, reason) {
      if (last.get(action) === reason) return;
      last.set(action, reason);
      const key = `${rule.name}\0${reason}`;
      const count = (counts.get(key)?.count ?? 0) + 1;
      counts.set(key, { rule: rule.name, reason, count });
      const fields = { account, action, rule: rule.name, mode, verdict: finding.verdict, reason };
      mark(fields);
      const line = { ...fields, dlqId: target.dlqId };
      // Most callbacks are healthy: what is normal is told to those who ask.
      if (finding.verdict === 'stuck') log.info(line, 'a stuck failure callback is left alone');
      else log.debug(line, 'a failure callback is left alone');
    },
    ended({ action, rule, mode, target }, outcome) {
      last.set(action, outcome);
      const fields = { account, action, rule, mode, outcome };
      mark(fields);
      const { dlqId, workflowRunId, workflowUrl, url, responseStatus } = target;
      const line = { ...fields, dlqId, workflowRunId, url: workflowUrl ?? url, responseStatus };
      if (outcome === 'planned') log.info(line, 'a stuck failure callback would be cancelled');
      else if (outcome === 'gave_up' || outcome === 'rejected') log.error(line, 'a failure callback was not cancelled');
      else log.info(line, 'an action of auto-cancel has ended');
    },
    forgetAllBut(actions) {
      for (const action of last.keys()) if (!actions.has(action)) last.delete(action);
    },
    skips: () => [...counts.values()],
  };
}
