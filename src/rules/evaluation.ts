import { OTHER } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import type { Log } from '../kit/log.ts';
import type { CheckKind } from '../model/check-kind.ts';
import { fingerprintOf, type Labels } from '../notify/notice.ts';
import type { AccountAlerts } from './account-alerts.ts';
import type { Alert, Evaluated } from './alert.ts';
import type { ActiveSeries, ConditionResult } from './evaluate-condition.ts';
import { type AlertCondition, type AlertRule, expand } from './options.ts';
import { advance } from './state.ts';

/** Formats a value with enough digits to compare it with a limit. */
const short = (value: number) => String(Number(value.toPrecision(4)));
const percent = (share: number) => `${short(100 * share)} %`;

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
      const share = `${percent(value)} of ${whole.metric} in ${formatDuration(over)}`;
      return `${part.metric} of ${account} is ${share}, above ${percent(above)}.`;
    }
    case 'stale':
      return `The data of ${condition.collector}${round === undefined ? '' : ` (round ${round})`} of ${account} is stale.`;
  }
}

/** A rule to evaluate. Built-in alerts have no condition: checks detect them. */
export type EvaluatedRule = Omit<AlertRule, 'when'> & {
  readonly when?: AlertCondition;
  /** Kinds of problems about which the configuration sends the built-in alert. */
  readonly sentKinds?: readonly CheckKind[];
};

/** Returns a summary of the condition, unless the rule has a summary or description. */
export function defaultSummary({ annotations, when }: EvaluatedRule, labels: Labels, value: number): Labels {
  const isExplained = annotations.summary !== undefined || annotations.description !== undefined;
  return isExplained || !when ? {} : { summary: textOf(when, labels, value) };
}

export interface EvaluationDeps {
  readonly alerts: Pick<AccountAlerts, 'account' | 'current' | 'update'>;
  readonly rules: readonly EvaluatedRule[];
  evaluateRule(rule: EvaluatedRule): ConditionResult;
  /** Whether a negative result proves nothing for the alert with these labels. Without `labels`: for any alert of the rule. */
  isInconclusive(rule: EvaluatedRule, labels?: Labels): boolean;
  readonly clock: Clock;
  readonly log: Log;
}

const REMOVED = { for: 0, keepFiringFor: 0 };

/** Returns the listed series, and whether the condition is false or unknown for all others. */
function read(result: ConditionResult): {
  readonly listed: readonly ActiveSeries[];
  readonly others: false | 'unknown';
} {
  if (result === 'unknown') return { listed: [], others: 'unknown' };
  return 'atLeast' in result ? { listed: result.atLeast, others: 'unknown' } : { listed: result, others: false };
}

/** Removes empty labels, as Alertmanager does: they would change the identity of the alert. */
const withoutEmpty = (labels: Labels) =>
  Object.values(labels).includes('')
    ? Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== ''))
    : labels;

/** Maximum number of alerts per rule and account, including recently resolved ones. Limits memory use and stored rows. */
export const MAX_ALERTS = 100;

type Candidate = Omit<Alert, 'state' | 'problem'> & Pick<ActiveSeries, 'heldFor' | 'problem'>;

/** Returns a function that evaluates every rule of an account and updates its alerts. It never rejects. */
export function createEvaluation(deps: EvaluationDeps): () => Promise<void> {
  const { alerts: own, rules, clock, log } = deps;
  const { account } = own;
  const names = new Set(rules.map(({ name }) => name));

  function evaluateSafely(rule: EvaluatedRule): ConditionResult {
    try {
      return deps.evaluateRule(rule);
    } catch (error) {
      log.error({ account, alert: rule.name, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      return 'unknown';
    }
  }

  /**
   * Returns active series by fingerprint, up to the limit, and the number of omitted ones. Existing alerts count towards the
   * limit, so that changing labels cannot create unlimited alerts.
   */
  function cap(rule: EvaluatedRule, listed: readonly ActiveSeries[], existing: ReadonlyMap<string, Alert>) {
    const { name, labels: more, annotations } = rule;
    const active = new Map<string, Candidate>();
    let capacity = MAX_ALERTS - existing.size;
    let omitted = 0;
    for (const { labels: own, value, heldFor, problem, annotations: ownTexts } of listed) {
      const labels = withoutEmpty({ ...own, ...more, alertname: name, account });
      const fingerprint = fingerprintOf(labels);
      if (!existing.has(fingerprint) && capacity <= 0) {
        omitted += 1;
        continue;
      }
      if (!existing.has(fingerprint) && !active.has(fingerprint)) capacity -= 1;
      const texts = Object.entries(annotations).map(([key, text]) => [key, expand(text, labels, value)] as const);
      const expanded = { ...defaultSummary(rule, labels, value), ...ownTexts, ...Object.fromEntries(texts) };
      active.set(fingerprint, { rule: name, labels, annotations: expanded, value, heldFor, problem });
    }
    if (omitted > 0) {
      const labels = withoutEmpty({ ...more, alertname: name, account, overflow: 'true' });
      const summary = `${name} has ${omitted} more series than the ${MAX_ALERTS} that get individual alerts.`;
      const [first] = listed;
      const problem = first?.problem && { ...first.problem, subject: OTHER };
      active.set(fingerprintOf(labels), { rule: name, labels, annotations: { summary }, value: omitted, problem });
    }
    return { active, omitted };
  }

  function evaluate(rule: EvaluatedRule, before: Evaluated) {
    const { listed, others } = read(evaluateSafely(rule));
    const existing = new Map([...before.alerts].filter(([, alert]) => alert.rule === rule.name));
    const { active, omitted } = cap(rule, listed, existing);
    const now = clock.now();
    const alerts = [...new Map<string, Candidate | Alert>([...existing, ...active])].flatMap(
      ([fingerprint, { labels, annotations, value, problem }]): [string, Alert][] => {
        const before = existing.get(fingerprint);
        const candidate = active.get(fingerprint);
        const isOver = others === false && !deps.isInconclusive(rule, labels);
        const since = candidate?.problem?.since;
        const startsAt = before && before.state.phase !== 'resolved' ? before.state.startsAt : (since ?? now);
        const isMinor = candidate?.problem?.isMinor(now - startsAt) === true;
        const isUnknown = !isOver && (!candidate || (isMinor && before?.state.phase === 'firing'));
        const holds = isUnknown ? 'unknown' : isMinor ? 'minor' : candidate !== undefined;
        const evaluation = { holds, heldFor: candidate?.heldFor, since, now, monotonic: clock.monotonic() } as const;
        const state = advance(before?.state, rule, evaluation);
        if (!state) return [];
        const found = problem && { kind: problem.kind, subject: problem.subject };
        const isUnsent = found && rule.sentKinds?.includes(found.kind) === false;
        return [[fingerprint, { rule: rule.name, labels, annotations, value, state, problem: found, isUnsent }]];
      },
    );
    return {
      name: rule.name,
      alerts,
      isUnknown: rule.sentKinds?.length !== 0 && (others === 'unknown' || deps.isInconclusive(rule)),
      beyondCap: others === false || omitted > 0 ? omitted : (before.beyondCap.get(rule.name) ?? 0),
    };
  }

  function resolveRemoved({ alerts }: Evaluated): [string, Alert][] {
    const ended = { holds: false, now: clock.now(), monotonic: clock.monotonic() };
    return [...alerts].flatMap(([fingerprint, alert]): [string, Alert][] => {
      if (names.has(alert.rule)) return [];
      const state = advance(alert.state, REMOVED, ended);
      return state ? [[fingerprint, { ...alert, state }]] : [];
    });
  }

  return async () => {
    const before = own.current();
    const each = rules.map(rule => evaluate(rule, before));
    await own.update({
      alerts: new Map([...each.flatMap(({ alerts }) => alerts), ...resolveRemoved(before)]),
      unknown: new Set(each.flatMap(({ name, isUnknown }) => (isUnknown ? [name] : []))),
      beyondCap: new Map(each.map(({ name, beyondCap }) => [name, beyondCap])),
    });
  };
}
