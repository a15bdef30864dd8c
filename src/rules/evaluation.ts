import { OTHER } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import type { Log } from '../kit/log.ts';
import { percent } from '../kit/text.ts';
import type { Tracer } from '../kit/tracer.ts';
import { MAX_ALERTS } from '../metrics/thresholds.ts';
import type { CheckKind } from '../model/check-kind.ts';
import { fingerprintOf, type Labels } from '../notify/notice.ts';
import { type AccountAlerts, type Alert, type Evaluated, isOfRule, ruleNames } from './account-alerts.ts';
import { BUILTIN_KINDS, isSent } from './checks/alerts.ts';
import type { CheckResult } from './checks/run.ts';
import { type ActiveSeries, type AlertEvidence, type AlertFacts, evaluateCondition } from './evaluate-condition.ts';
import { createAlertEvidence, type WindowHistory } from './facts.ts';
import {
  type AlertCondition,
  type AlertRule,
  type AlertsOptions,
  expand,
  type Selector,
  selectorsOf,
} from './options.ts';
import { series } from './promql.ts';
import { advance } from './state.ts';

/** A rule to evaluate: a configured rule, or the built-in rule of a kind of problem. */
export interface EvaluatedRule extends Omit<AlertRule, 'when'> {
  /** Set for built-in rules. Several of them may have the same name. */
  readonly kind?: CheckKind;
  readonly when?: AlertRule['when'];
  /** Whether the configuration does not send the alerts of the rule. */
  readonly isUnsent?: boolean;
}

export interface RuleResult {
  readonly listed: readonly ActiveSeries[];
  /** Whether the condition is false, and not unknown, for unlisted series: for one with these labels or, by default, for all. */
  isOver(labels?: Labels): boolean;
}

export const UNKNOWN_RESULT: RuleResult = { listed: [], isOver: () => false };

export interface EvaluationDeps {
  readonly alerts: Pick<AccountAlerts, 'account' | 'current' | 'update'>;
  readonly rules: readonly EvaluatedRule[];
  evaluateRule(rule: EvaluatedRule): RuleResult;
  readonly clock: Clock;
  readonly log: Log;
}

const REMOVED = { for: 0, keepFiringFor: 0 };

/** Removes empty labels, as Alertmanager does: they would change the identity of the alert. */
const withoutEmpty = (labels: Labels) => Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== ''));

type Candidate = Pick<Alert, 'labels' | 'annotations' | 'value' | 'omitted'> & ActiveSeries;

/** Returns a function that evaluates every rule of an account and updates its alerts. It never rejects. */
export function createEvaluation(deps: EvaluationDeps): () => Promise<void> {
  const { alerts: own, rules, clock, log } = deps;
  const { account } = own;

  function evaluateSafely(rule: EvaluatedRule): RuleResult {
    try {
      return deps.evaluateRule(rule);
    } catch (error) {
      log.error({ account, alert: rule.name, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      return UNKNOWN_RESULT;
    }
  }

  /**
   * Returns active series by fingerprint, up to the limit, and one alert for all omitted ones. Existing alerts count towards the
   * limit, so that changing labels cannot create unlimited alerts.
   */
  function cap(rule: EvaluatedRule, listed: readonly ActiveSeries[], existing: ReadonlyMap<string, Alert>) {
    const { name, kind, labels: more, annotations } = rule;
    const active = new Map<string, Candidate>();
    let capacity = MAX_ALERTS - existing.size;
    let omitted = 0;
    for (const { labels: own, annotations: ownTexts, value, ...series } of listed) {
      const labels = withoutEmpty({ alertname: name, account, ...own, ...more });
      const fingerprint = fingerprintOf(labels);
      if (!existing.has(fingerprint) && capacity <= 0) {
        omitted += 1;
        continue;
      }
      if (!existing.has(fingerprint) && !active.has(fingerprint)) capacity -= 1;
      const texts = Object.entries(annotations).map(([key, text]) => [key, expand(text, labels, value)] as const);
      const expanded = { ...Object.fromEntries(texts), ...ownTexts };
      active.set(fingerprint, { ...series, labels, annotations: expanded, value });
    }
    const [first] = listed;
    if (first && omitted > 0) {
      const rest: Labels = kind === undefined ? { overflow: 'true' } : { subject: OTHER };
      const labels = withoutEmpty({ alertname: name, account, ...rest, ...more });
      const summary = `${name} has ${omitted} more series than the ${MAX_ALERTS} that get individual alerts.`;
      active.set(fingerprintOf(labels), { ...first, labels, annotations: { summary }, value: omitted, omitted });
    }
    return active;
  }

  /** Returns the next state of an alert. `candidate`: the alert's series, if it is listed. */
  function advanced(rule: EvaluatedRule, before: Alert | undefined, candidate: Candidate | undefined, isOver: boolean) {
    const { since, heldFor } = candidate ?? {};
    const holds = candidate !== undefined || (isOver ? false : 'unknown');
    return advance(before?.state, rule, { holds, heldFor, since, now: clock.now(), monotonic: clock.monotonic() });
  }

  function evaluate(rule: EvaluatedRule, before: Evaluated) {
    const { listed, isOver } = evaluateSafely(rule);
    const existing = new Map([...before.alerts].filter(([, alert]) => isOfRule(alert, rule)));
    const active = cap(rule, listed, existing);
    const alerts = [...new Map<string, Candidate | Alert>([...existing, ...active])].flatMap(
      ([fingerprint, { labels, annotations, value, omitted }]): [string, Alert][] => {
        const state = advanced(rule, existing.get(fingerprint), active.get(fingerprint), isOver(labels));
        const { name, kind, isUnsent } = rule;
        const alert = { rule: name, kind, isUnsent, labels, annotations, value, omitted };
        return state ? [[fingerprint, { ...alert, state }]] : [];
      },
    );
    return { rule, alerts, isUnknown: !isOver() };
  }

  function resolveRemoved({ alerts }: Evaluated): [string, Alert][] {
    return [...alerts].flatMap(([fingerprint, alert]): [string, Alert][] => {
      if (rules.some(rule => isOfRule(alert, rule))) return [];
      const state = advance(alert.state, REMOVED, { holds: false, now: clock.now(), monotonic: clock.monotonic() });
      return state ? [[fingerprint, { ...alert, state }]] : [];
    });
  }

  return async () => {
    const before = own.current();
    const evaluated = rules.map(rule => evaluate(rule, before));
    const unknown = evaluated.filter(({ rule, isUnknown }) => isUnknown && !rule.isUnsent);
    await own.update({
      alerts: new Map([...evaluated.flatMap(({ alerts }) => alerts), ...resolveRemoved(before)]),
      unknown: new Set(unknown.flatMap(({ rule }) => ruleNames(rule))),
    });
  };
}

/** Returns a rule for each kind of problem, even if the kind is not sent. `externalUrl`: base URL of the pages. */
export const builtinRules = (
  { enabled, builtin }: Pick<AlertsOptions, 'enabled' | 'builtin'>,
  about: 'account' | 'agent',
  externalUrl: string | null,
): readonly EvaluatedRule[] =>
  BUILTIN_KINDS.filter(({ isOfAgent }) => isOfAgent === (about === 'agent')).map(definition => {
    const { kind, alert, severity, isOfAgent, for: pending, keepFiringFor } = definition;
    const base = externalUrl?.replace(/\/+$/, '');
    const annotations: Labels =
      base === undefined
        ? {}
        : {
            runbook_url: `${base}/runbooks/${alert}`,
            status_url: isOfAgent ? `${base}/` : `${base}/accounts/{{ $labels.account }}`,
          };
    const isUnsent = !enabled || !isSent(definition, builtin);
    return { name: alert, kind, for: pending, keepFiringFor, labels: { kind, severity }, annotations, isUnsent };
  });

/** Returns the result of a kind's rule. `results`: the results of its checks. */
export function builtinResult(
  { annotations: { status_url } }: EvaluatedRule,
  results: readonly CheckResult[],
  account: string,
): RuleResult {
  const unknown = results.flatMap(each => each.unknown);
  const listed = results.flatMap(({ findings }) =>
    findings.map(({ subject, since, text, deadLetterKind: kind }): ActiveSeries => {
      const page = kind !== undefined && status_url !== undefined && expand(status_url, { account }, 1);
      const labels: Labels = subject === undefined ? {} : { subject };
      const annotations: Labels = { summary: text, ...(page && { status_url: `${page}/dlq?kind=${kind}` }) };
      return { labels, value: 1, annotations, since };
    }),
  );
  // An alert without its own subject represents several subjects. Any subject with an unknown result may be one of them.
  const isAbout = (subject: string | undefined, own: string | undefined) =>
    subject === undefined || own === undefined || own === OTHER || own === subject;
  return {
    listed,
    isOver: labels => !unknown.some(({ subject }) => labels === undefined || isAbout(subject, labels.subject)),
  };
}

export interface AlertsDeps extends Omit<EvaluationDeps, 'evaluateRule'> {
  /** Runs the checks of the built-in rules. */
  readonly check?: (() => readonly CheckResult[]) | undefined;
  readonly facts: AlertFacts;
  readonly tracer: Tracer;
  /** Without a history, conditions over windows are unknown. */
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
  const { alerts, rules, check, facts, history, clock, log, tracer } = deps;
  const { account } = alerts;
  const conditions = rules.flatMap(({ when }) => when ?? []);
  const evidence = createAlertEvidence(conditions, facts, clock, history);
  /** Results of the checks in this evaluation, by kind; undefined if a check threw an error. */
  let checked: ReadonlyMap<string, readonly CheckResult[]> | undefined;

  function runChecks(): void {
    checked = undefined;
    try {
      checked = Map.groupBy(check?.() ?? [], ({ check }) => check.kind);
    } catch (error) {
      log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
    }
  }

  const evaluate = createEvaluation({
    alerts,
    rules,
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
