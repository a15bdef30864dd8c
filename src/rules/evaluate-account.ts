import type { Tracer } from '../kit/tracer.ts';
import { type BuiltinResult, evaluateBuiltin, isAboutUnknown } from './builtin.ts';
import type { BuiltinAlert } from './checks/check.ts';
import type { CheckResult } from './checks/run.ts';
import { evaluateCondition } from './evaluate-condition.ts';
import { createEvaluation, type EvaluatedRule, type EvaluationDeps } from './evaluation.ts';
import type { AlertFacts } from './facts.ts';
import { type AlertRule, selectorsOf } from './options.ts';
import { createAlertEvidence, type WindowHistory } from './windows.ts';

/** Built-in alerts of an account or of the agent. */
export interface Builtin {
  readonly rules: readonly EvaluatedRule[];
  check(): readonly CheckResult[];
}

export interface AlertsDeps extends Omit<EvaluationDeps, 'rules' | 'evaluateRule' | 'isInconclusive'> {
  readonly rules: readonly AlertRule[];
  readonly builtin?: Builtin | undefined;
  readonly facts: AlertFacts;
  readonly tracer: Tracer;
  /** Without it, windows are unknown. */
  readonly history?: WindowHistory | undefined;
}

/** Returns a loop body that evaluates the rules of one account. It never rejects. */
export function createAlerts(deps: AlertsDeps): () => Promise<void> {
  const { alerts, rules, builtin, facts, history, clock, log, tracer } = deps;
  const { account } = alerts;
  const evidence = createAlertEvidence(
    rules.map(({ when }) => when),
    facts,
    clock,
    history,
  );
  /** Results of this evaluation by built-in alert; empty if a check threw an error. */
  let evaluated: ReadonlyMap<string, BuiltinResult> = new Map();

  function runChecks(): void {
    evaluated = new Map();
    if (!builtin) return;
    try {
      const results = Map.groupBy<string, CheckResult>(builtin.check(), ({ check }) => check.alert);
      evaluated = new Map(
        builtin.rules.map(({ name }) => [name, evaluateBuiltin(name as BuiltinAlert, results.get(name) ?? [])]),
      );
    } catch (error) {
      log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
    }
  }

  const evaluate = createEvaluation({
    alerts,
    rules: [...(builtin?.rules ?? []), ...rules],
    evaluateRule: ({ name, when }) =>
      when ? evaluateCondition(when, evidence) : (evaluated.get(name)?.result ?? 'unknown'),
    isInconclusive({ name, when }, labels) {
      if (when) return selectorsOf(when).some(selector => facts.isInconclusive(selector, labels));
      const own = evaluated.get(name);
      return own !== undefined && isAboutUnknown(own, labels);
    },
    clock,
    log,
  });
  return () =>
    tracer.span('evaluate alerts', { account }, async () => {
      try {
        await evidence.prepare().catch(error => {
          log.warn(
            { account, error: String(error) },
            'failed to read history; windows of more than 90 minutes start empty',
          );
        });
        runChecks();
        await evaluate();
      } catch (error) {
        log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      }
    });
}
