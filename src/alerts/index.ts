import type { Tracer } from '../kit/tracer.ts';
import { createEvaluation, type EvaluationDeps } from './evaluation.ts';
import { type AlertFacts, createEvidence, type Histories } from './evidence.ts';
import { judgeAlert } from './judge.ts';
import { selectorsOf } from './options.ts';

/** The door: what sends through the outbox sends these. */
export type { Notice } from './notice.ts';
export type { Outbox, Posting } from './outbox.ts';

export interface AlertsDeps extends Omit<EvaluationDeps, 'judge' | 'isDoubtful'> {
  readonly facts: AlertFacts;
  readonly tracer: Tracer;
  /** Of the account; where others evaluated it before, theirs. */
  readonly histories?: Histories;
}

/** The body of a loop that evaluates the rules of one account. It never rejects. */
export function createAlerts({ alerts, rules, facts, histories, clock, log, tracer }: AlertsDeps): () => Promise<void> {
  const { account } = alerts;
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
        evidence.record();
        await evaluate();
      } catch (error) {
        log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      }
    });
}
