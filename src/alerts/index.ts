import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { AccountAlerts } from './account-alerts.ts';
import { createEvaluation } from './evaluation.ts';
import { type AlertFacts, createEvidence } from './evidence.ts';
import { judgeAlert } from './judge.ts';
import { type AlertRule, selectorsOf } from './options.ts';

/** The door: what sends through the outbox sends these. */
export type { Notice } from './notice.ts';
export type { Outbox } from './outbox.ts';

export interface AlertsDeps {
  readonly alerts: AccountAlerts;
  readonly rules: readonly AlertRule[];
  readonly facts: AlertFacts;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracer: Tracer;
}

/** The body of a loop that evaluates the rules of one account. It never rejects. */
export function createAlerts({ alerts, rules, facts, clock, log, tracer }: AlertsDeps): () => Promise<void> {
  const { account } = alerts;
  const evidence = createEvidence(
    rules.map(({ when }) => when),
    facts,
    clock,
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
