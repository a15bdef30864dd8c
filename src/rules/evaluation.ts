import { OTHER } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { MAX_ALERTS } from '../metrics/thresholds.ts';
import type { CheckKind } from '../model/check-kind.ts';
import { fingerprintOf, type Labels } from '../notify/notice.ts';
import type { AccountAlerts } from './account-alerts.ts';
import { type Alert, type Evaluated, isOfRule, ruleNames } from './alert.ts';
import type { ActiveSeries } from './evaluate-condition.ts';
import { type AlertRule, expand } from './options.ts';
import { advance } from './state.ts';

/** A rule to evaluate: one of the configuration, or that of a kind of problem. */
export interface EvaluatedRule extends Omit<AlertRule, 'when'> {
  /** Set for built-in rules. Several of them may have the same name. */
  readonly kind?: CheckKind;
  readonly when?: AlertRule['when'];
  /** Whether the configuration does not send the alerts of the rule. */
  readonly isUnsent?: boolean;
}

export interface RuleResult {
  readonly listed: readonly ActiveSeries[];
  /**
   * Whether the condition is false for series with these labels that are not listed, not unknown. Without `labels`: for all of
   * them.
   */
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
const withoutEmpty = (labels: Labels) =>
  Object.values(labels).includes('')
    ? Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== ''))
    : labels;

type Candidate = Pick<Alert, 'labels' | 'annotations' | 'value' | 'omitted'> & ActiveSeries;

interface RuleAlerts {
  readonly rule: EvaluatedRule;
  readonly alerts: readonly (readonly [fingerprint: string, alert: Alert])[];
  readonly isUnknown: boolean;
}

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

  /** Returns the next state of an alert. `candidate`: its series, if it is listed. */
  function advanced(rule: EvaluatedRule, before: Alert | undefined, candidate: Candidate | undefined, isOver: boolean) {
    const { since, heldFor, minorFor = 0 } = candidate ?? {};
    const now = clock.now();
    const startsAt = before && before.state.phase !== 'resolved' ? before.state.startsAt : (since ?? now);
    const isMinor = minorFor > 0 && now - startsAt < minorFor;
    const isUnknown = !isOver && (!candidate || (isMinor && before?.state.phase === 'firing'));
    const holds = isUnknown ? 'unknown' : isMinor ? 'minor' : candidate !== undefined;
    return advance(before?.state, rule, { holds, heldFor, since, now, monotonic: clock.monotonic() });
  }

  function evaluate(rule: EvaluatedRule, before: Evaluated): RuleAlerts {
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
