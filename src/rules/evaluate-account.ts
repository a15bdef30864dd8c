import type { Tracer } from '../kit/tracer.ts';
import { createEvaluation, type EvaluationDeps } from './evaluation.ts';
import { type AlertFacts, createEvidence, createHistories, type Histories, type Past } from './evidence.ts';
import { judgeAlert } from './judge.ts';
import { selectorsOf } from './options.ts';

export interface AlertsDeps extends Omit<EvaluationDeps, 'judge' | 'isDoubtful'> {
  readonly facts: AlertFacts;
  readonly tracer: Tracer;
  /** Of the account; where others evaluated it before, theirs. */
  readonly histories?: Histories;
  /** What is known from before; without it windows begin with the process. */
  readonly past?: Past | undefined;
}

/** The body of a loop that evaluates the rules of one account. It never rejects. */
export function createAlerts(deps: AlertsDeps): () => Promise<void> {
  const { alerts, rules, facts, histories = createHistories(), past, clock, log, tracer } = deps;
  const { account } = alerts;
  async function restore(past: Past): Promise<void> {
    try {
      await histories.restore(past);
    } catch (error) {
      log.warn({ account, error: String(error) }, 'windows of alerts begin anew: the history could not be read');
    }
  }

  const evidence = createEvidence(
    rules.map(({ when }) => when),
    facts,
    clock,
    histories,
  );
  const evaluate = createEvaluation({
    alerts,
    rules,
    judge: ({ when }) => judgeAlert(when, evidence),
    isDoubtful: ({ when }, labels) => selectorsOf(when).some(selector => facts.isDoubtful(selector, labels)),
    clock,
    log,
  });
  return () =>
    tracer.span('evaluate alerts', { account }, async () => {
      try {
        if (past) await restore(past);
        evidence.record();
        await evaluate();
      } catch (error) {
        log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      }
    });
}
