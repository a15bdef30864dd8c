import { formatDuration } from '../kit/duration.ts';
import { percent } from '../kit/text.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { Labels } from '../notify/notice.ts';
import { builtinResult } from './builtin.ts';
import type { CheckResult } from './checks/run.ts';
import { type AlertEvidence, type AlertFacts, evaluateCondition } from './evaluate-condition.ts';
import {
  createEvaluation,
  type EvaluatedRule,
  type EvaluationDeps,
  type RuleResult,
  UNKNOWN_RESULT,
} from './evaluation.ts';
import { type AlertCondition, type AlertRule, type Selector, selectorsOf } from './options.ts';
import { series } from './promql.ts';
import { createAlertEvidence, type WindowHistory } from './windows.ts';

/** Built-in rules of an account or of the agent, and their checks. */
export interface Builtin {
  readonly rules: readonly EvaluatedRule[];
  check(): readonly CheckResult[];
}

export interface AlertsDeps extends Omit<EvaluationDeps, 'rules' | 'evaluateRule'> {
  readonly rules: readonly AlertRule[];
  readonly builtin?: Builtin | undefined;
  readonly facts: AlertFacts;
  readonly tracer: Tracer;
  /** Without it, windows are unknown. */
  readonly history?: WindowHistory | undefined;
}

/** Formats a value with enough digits to compare it with a limit. */
const short = (value: number) => String(Number(value.toPrecision(4)));

const selected = ({ metric, labels }: Selector) => series<string>({ name: metric, labels: [] }, labels);

function textOf(condition: AlertCondition, { account = '', round }: Labels, value: number): string {
  switch (condition.kind) {
    case 'above':
    case 'below':
      return `${condition.metric} of ${account} is ${short(value)}, ${condition.kind} ${condition.value}.`;
    case 'growth':
      return `${condition.metric} of ${account} grew by ${short(value)} in ${formatDuration(condition.over)}.`;
    case 'age':
      return `${condition.metric} of ${account} is more than ${formatDuration(condition.above)} ago.`;
    case 'ratio': {
      const { part, whole, over, above } = condition;
      const share = `${percent(value)} of ${selected(whole)} in ${formatDuration(over)}`;
      return `${selected(part)} of ${account} is ${share}, above ${percent(above)}.`;
    }
    case 'stale':
      return `The data of ${condition.collector}${round === undefined ? '' : ` (round ${round})`} of ${account} is stale.`;
  }
}

/** Returns a summary of the condition, unless the rule has a summary or description. */
export function defaultSummary({ annotations, when }: AlertRule, labels: Labels, value: number): Labels {
  const isExplained = annotations.summary !== undefined || annotations.description !== undefined;
  return isExplained ? {} : { summary: textOf(when, labels, value) };
}

/** Returns the result of a configured rule for an account. */
function conditionResult(rule: AlertRule, account: string, evidence: AlertEvidence): RuleResult {
  const { when } = rule;
  const result = evaluateCondition(when, evidence);
  if (result === 'unknown') return UNKNOWN_RESULT;
  const isComplete = !('atLeast' in result);
  const listed = isComplete ? result : result.atLeast;
  return {
    listed: listed.map(series => ({
      ...series,
      annotations: defaultSummary(rule, { ...series.labels, ...rule.labels, account }, series.value),
    })),
    isOver: labels => isComplete && !selectorsOf(when).some(selector => evidence.isInconclusive(selector, labels)),
  };
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
  /** Results of the checks in this evaluation, by kind; undefined if a check threw an error. */
  let checked: ReadonlyMap<string, readonly CheckResult[]> | undefined;

  function runChecks(): void {
    checked = undefined;
    try {
      checked = Map.groupBy(builtin?.check() ?? [], ({ check }) => check.kind);
    } catch (error) {
      log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
    }
  }

  const evaluate = createEvaluation({
    alerts,
    rules: [...(builtin?.rules ?? []), ...rules],
    evaluateRule({ when, ...rule }) {
      if (when) return conditionResult({ when, ...rule }, account, evidence);
      return checked ? builtinResult(rule, checked.get(rule.kind ?? '') ?? [], account) : UNKNOWN_RESULT;
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
