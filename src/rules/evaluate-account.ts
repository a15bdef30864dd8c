import type { Tracer } from '../kit/tracer.ts';
import { type BuiltinJudgement, isAboutUnknown, judgeBuiltin } from './builtin.ts';
import type { BuiltinAlert } from './checks/alerts.ts';
import type { CheckResult } from './checks/run.ts';
import { createEvaluation, type EvaluationDeps, type Rule } from './evaluation.ts';
import { type AlertFacts, createEvidence, createHistories, type Histories, type Past } from './evidence.ts';
import { judgeAlert } from './judge.ts';
import { type AlertRule, selectorsOf } from './options.ts';

/** The built-in alerts of an account, or of the agent. */
export interface Builtin {
  readonly rules: readonly Rule[];
  /** Kinds of checks whose findings are ignored. */
  readonly disabled: readonly string[];
  check(): readonly CheckResult[];
}

export interface AlertsDeps extends Omit<EvaluationDeps, 'rules' | 'judge' | 'isDoubtful'> {
  readonly rules: readonly AlertRule[];
  readonly builtin?: Builtin | undefined;
  readonly facts: AlertFacts;
  readonly tracer: Tracer;
  /** Of the account; where others evaluated it before, theirs. */
  readonly histories?: Histories;
  /** What is known from before; without it windows begin with the process. */
  readonly past?: Past | undefined;
}

/** The body of a loop that evaluates the rules of one account. It never rejects. */
export function createAlerts(deps: AlertsDeps): () => Promise<void> {
  const { alerts, rules, builtin, facts, histories = createHistories(), past, clock, log, tracer } = deps;
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
  /** Results of this evaluation by built-in alert; empty after a bug in a check. */
  let judged: ReadonlyMap<string, BuiltinJudgement> = new Map();

  function runChecks(): void {
    judged = new Map();
    if (!builtin || builtin.rules.length === 0) return;
    try {
      const results = builtin.check();
      judged = new Map(
        builtin.rules.map(({ name }) => [name, judgeBuiltin(name as BuiltinAlert, results, builtin.disabled)]),
      );
    } catch (error) {
      log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
    }
  }

  const evaluate = createEvaluation({
    alerts,
    rules: [...(builtin?.rules ?? []), ...rules],
    judge: ({ name, when }) => (when ? judgeAlert(when, evidence) : (judged.get(name)?.judged ?? 'unknown')),
    isDoubtful({ name, when }, labels) {
      if (when) return selectorsOf(when).some(selector => facts.isDoubtful(selector, labels));
      const own = judged.get(name);
      return own !== undefined && isAboutUnknown(own, labels);
    },
    clock,
    log,
  });
  return () =>
    tracer.span('evaluate alerts', { account }, async () => {
      try {
        if (past) await restore(past);
        evidence.record();
        runChecks();
        await evaluate();
      } catch (error) {
        log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      }
    });
}
