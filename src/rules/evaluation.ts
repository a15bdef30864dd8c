import type { Clock } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import type { Log } from '../kit/log.ts';
import { fingerprintOf } from '../notify/notice.ts';
import type { AccountAlerts } from './account-alerts.ts';
import type { Alert, Evaluated } from './alert.ts';
import type { AlertJudgement, Holding } from './judge.ts';
import { type AlertCondition, type AlertRule, expand } from './options.ts';
import { advance } from './state.ts';

type Labels = Readonly<Record<string, string>>;

/** Few digits: the reader compares it with a limit. */
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
    case 'absent':
      return `${account} has no ${condition.metric}.`;
  }
}

/** A rule as it is evaluated; built-in alerts have no condition of their own. */
export type Rule = Omit<AlertRule, 'when'> & { readonly when?: AlertCondition };

/** Returns the summary of an alert whose rule has no text for people. */
export function defaultSummary({ annotations, when }: Rule, labels: Labels, value: number): Labels {
  const isExplained = annotations.summary !== undefined || annotations.description !== undefined;
  return isExplained || !when ? {} : { summary: textOf(when, labels, value) };
}

export interface EvaluationDeps {
  readonly alerts: Pick<AccountAlerts, 'account' | 'current' | 'update'>;
  readonly rules: readonly Rule[];
  judge(rule: Rule): AlertJudgement;
  /** Whether it may be that its condition holds though it does not seem so: of the alert with these labels, or of any. */
  isDoubtful(rule: Rule, labels?: Labels): boolean;
  readonly clock: Clock;
  readonly log: Log;
}

const REMOVED = { for: 0, keepFiringFor: 0 };

/** What a judgement lists, and whether it holds of what it does not list. */
function read(judged: AlertJudgement): { readonly listed: readonly Holding[]; readonly others: false | 'unknown' } {
  if (judged === 'unknown') return { listed: [], others: 'unknown' };
  return 'atLeast' in judged ? { listed: judged.atLeast, others: 'unknown' } : { listed: judged, others: false };
}

/** Alertmanager takes empty labels away, and with them they would be another alert. */
const withoutEmpty = (labels: Labels) =>
  Object.values(labels).includes('')
    ? Object.fromEntries(Object.entries(labels).filter(([, value]) => value !== ''))
    : labels;

/** Maximum number of alerts of a rule in one account, recently resolved ones included: bounds memory and rows. */
export const MAX_ALERTS = 100;

type Candidate = Omit<Alert, 'state'> & Pick<Holding, 'heldFor'>;

/** Gives a function that judges every rule of an account and updates its alerts. It never rejects. */
export function createEvaluation(deps: EvaluationDeps): () => Promise<void> {
  const { alerts: own, rules, clock, log } = deps;
  const { account } = own;
  const names = new Set(rules.map(({ name }) => name));

  function judgeSafely(rule: Rule): AlertJudgement {
    try {
      return deps.judge(rule);
    } catch (error) {
      log.error({ account, alert: rule.name, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
      return 'unknown';
    }
  }

  function overflow({ name, labels }: Rule, value: number): Candidate {
    const summary = `${name} has ${value} more series than the ${MAX_ALERTS} that get individual alerts.`;
    const identity = withoutEmpty({ ...labels, alertname: name, account, overflow: 'true' });
    return { rule: name, labels: identity, annotations: { summary }, value };
  }

  /** Series that fit under the cap, by fingerprint. Existing alerts keep their places, so changing keys do not make any number of alerts. */
  function cap(rule: Rule, listed: readonly Holding[], known: ReadonlyMap<string, Alert>) {
    const { name, labels: more, annotations } = rule;
    const holding = new Map<string, Candidate>();
    let room = MAX_ALERTS - known.size;
    let left = 0;
    for (const { labels: own, value, heldFor, annotations: ownTexts } of listed) {
      const labels = withoutEmpty({ ...own, ...more, alertname: name, account });
      const fingerprint = fingerprintOf(labels);
      if (!known.has(fingerprint) && room <= 0) {
        left += 1;
        continue;
      }
      if (!known.has(fingerprint) && !holding.has(fingerprint)) room -= 1;
      const texts = Object.entries(annotations).map(([key, text]) => [key, expand(text, labels, value)] as const);
      const said = { ...defaultSummary(rule, labels, value), ...ownTexts, ...Object.fromEntries(texts) };
      holding.set(fingerprint, { rule: name, labels, annotations: said, value, heldFor });
    }
    if (left > 0) {
      const rest = overflow(rule, left);
      holding.set(fingerprintOf(rest.labels), rest);
    }
    return { holding, left };
  }

  /** A rule's alerts after this evaluation, what is beyond its cap, and whether all its series could be judged. */
  function evaluate(rule: Rule, before: Evaluated) {
    const { listed, others } = read(judgeSafely(rule));
    const known = new Map([...before.alerts].filter(([, alert]) => alert.rule === rule.name));
    const { holding, left } = cap(rule, listed, known);
    const moment = { now: clock.now(), monotonic: clock.monotonic() };
    const alerts = [...new Map<string, Omit<Alert, 'state'>>([...known, ...holding])].flatMap(
      ([fingerprint, { labels, annotations, value }]): [string, Alert][] => {
        const candidate = holding.get(fingerprint);
        const isOver = others === false && !deps.isDoubtful(rule, labels);
        const holds = candidate ? true : isOver ? false : 'unknown';
        const evaluation = { holds, heldFor: candidate?.heldFor, ...moment } as const;
        const state = advance(known.get(fingerprint)?.state, rule, evaluation);
        return state ? [[fingerprint, { rule: rule.name, labels, annotations, value, state }]] : [];
      },
    );
    return {
      name: rule.name,
      alerts,
      isUnknown: others === 'unknown' || deps.isDoubtful(rule),
      beyondCap: others === false || left > 0 ? left : (before.beyondCap.get(rule.name) ?? 0),
    };
  }

  function resolveRemoved({ alerts }: Evaluated): [string, Alert][] {
    const moment = { holds: false, now: clock.now(), monotonic: clock.monotonic() };
    return [...alerts].flatMap(([fingerprint, alert]): [string, Alert][] => {
      if (names.has(alert.rule)) return [];
      const state = advance(alert.state, REMOVED, moment);
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
