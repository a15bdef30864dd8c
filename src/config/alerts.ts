import { z } from 'zod';
import { alertingRule, alertmanagerOptions, evaluateEvery, notifierName, webhookOptions } from '../alerting/options.ts';
import { collectors } from '../collectors/index.ts';
import { accountFamilies } from '../metrics/account-families.ts';
import type { Family } from '../metrics/family.ts';
import { type AlertCondition, alertCondition, type Selector } from '../rules/options.ts';
import { secret } from '../upstream/options.ts';

const rule = alertingRule.safeExtend({ when: alertCondition.describe('What it is about: exactly one of these.') });

const notifier = z
  .strictObject({
    name: notifierName,
    alertmanager: alertmanagerOptions.optional().describe('Alertmanager 0.16 or newer, by its API v2.'),
    webhook: webhookOptions
      .safeExtend({
        secret: secret
          .nullable()
          .default(null)
          .describe('Signs what is sent: `{ env: NAME }`, `{ file: PATH }` or the text itself (works, and warns).'),
      })
      .optional()
      .describe('Anything that takes the JSON of Alertmanager’s webhooks.'),
  })
  .refine(({ alertmanager, webhook }) => (alertmanager === undefined) !== (webhook === undefined), {
    error: 'must have exactly one of alertmanager, webhook',
  });

function uniqueNames(items: readonly { readonly name: string }[], context: z.RefinementCtx): void {
  for (const [index, { name }] of items.entries()) {
    if (items.findIndex(item => item.name === name) === index) continue;
    context.addIssue({ code: 'custom', path: [index, 'name'], message: `must be unique; ${name} is there already` });
  }
}

/** The section `alerts`: conditions, patience and those who are told. */
export const alertsOptions = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Whether `rules` are evaluated. `autoCancel.rules[].notify` works in any case.'),
  evaluateEvery,
  rules: z.array(rule).superRefine(uniqueNames).default([]).describe('Alerts, for every account each.'),
  notifiers: z.array(notifier).superRefine(uniqueNames).default([]).describe('Who is told of every alert.'),
});

export type Alerts = z.output<typeof alertsOptions>;
export type AlertRule = Alerts['rules'][number];

/** A family that alerts may be about, and the collector whose data it is; undefined: it is always known. */
export interface KnownFamily {
  readonly family: Family;
  readonly collector: string | undefined;
}

/** Every gauge and counter of an account, by name. */
export const alertFamilies: ReadonlyMap<string, KnownFamily> = new Map(
  [
    ...collectors.flatMap(({ name, families }) =>
      Object.values(families).map((family): KnownFamily => ({ family, collector: name })),
    ),
    ...accountFamilies.map((family): KnownFamily => ({ family, collector: undefined })),
  ]
    .filter(({ family: { type } }) => type === 'gauge' || type === 'counter')
    .map(known => [known.family.name, known]),
);

/** Rounds without which a collector's gauges are withdrawn in the end, of any of these accounts. */
export function decidingRounds(name: string, { accounts }: Pick<Around, 'accounts'>): readonly string[] {
  const { auxiliary = [] } = collectors.find(each => each.name === name) ?? {};
  return roundsOf(name, accounts).filter(round => !auxiliary.includes(round));
}

interface Around {
  readonly alerts: Alerts;
  readonly autoCancel: { readonly pauseWhileAlerts: readonly string[] };
  readonly accounts: readonly {
    readonly name: string;
    readonly collect: Readonly<Record<string, { readonly enabled: boolean }>>;
  }[];
}

/** Something wrong, with the path of where it stands. */
interface Wrong {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Rounds that a collector has in any account. */
function roundsOf(name: string, accounts: Around['accounts']): readonly string[] {
  const collector = collectors.find(each => each.name === name);
  const rounds = accounts.flatMap(({ collect }) => {
    if (!collector) return [];
    const options = collector.configKey === null ? { enabled: true } : collect[collector.configKey];
    return options?.enabled ? Object.keys(collector.rounds(options)) : [];
  });
  return [...new Set(rounds)];
}

/** Where each selector of a condition stands in it, and what the family must be. */
function partsOf(condition: AlertCondition): [path: string[], selector: Selector, must: 'any' | 'counter' | 'time'][] {
  if (condition.kind === 'stale') return [];
  if (condition.kind !== 'ratio') return [[[], condition, condition.kind === 'age' ? 'time' : 'any']];
  return [
    [['part'], condition.part, 'counter'],
    [['whole'], condition.whole, 'counter'],
  ];
}

function faultsOfSelector(
  { metric, labels }: Selector,
  must: 'any' | 'counter' | 'time',
  ruleLabels: readonly string[],
  accounts: Around['accounts'],
): Wrong[] {
  const known = alertFamilies.get(metric);
  const ofMetric = (message: string): Wrong[] => [{ path: ['metric'], message }];
  if (!known) return ofMetric(`must be a gauge or counter of an account (docs/metrics.md); there is no ${metric}`);
  const { family, collector } = known;
  if (must === 'counter' && family.type !== 'counter') return ofMetric(`must be a counter; ${metric} is a gauge`);
  if (must === 'time' && !metric.endsWith('_timestamp_seconds')) {
    return ofMetric('must be a metric that ends in _timestamp_seconds');
  }
  if (collector !== undefined && roundsOf(collector, accounts).length === 0) {
    return ofMetric(`is of the collector ${collector}, which is not enabled for any account`);
  }
  const allowed = ['account', ...family.labels];
  const wrong = Object.keys(labels)
    .filter(label => !allowed.includes(label))
    .map(label => ({ path: ['labels', label], message: `${metric} has no such label; it has ${allowed.join(', ')}` }));
  const taken = ruleLabels.find(label => family.labels.includes(label));
  const clash: Wrong[] =
    taken === undefined ? [] : ofMetric(`has the label ${taken}, which the rule's own labels would take the place of`);
  const names = accounts.map(({ name }) => name);
  const strangers = (labels.account ?? []).filter(account => !names.includes(account));
  const nobody = strangers.map(name => ({
    path: ['labels', 'account'],
    message: `there is no account called ${name}; there are: ${names.join(', ')}`,
  }));
  return [...wrong, ...clash, ...nobody];
}

function faultsOfStale(condition: AlertCondition, { accounts }: Around): Wrong[] {
  if (condition.kind !== 'stale') return [];
  const { collector, round } = condition;
  const known = collectors.map(({ name }) => name).filter(name => roundsOf(name, accounts).length > 0);
  if (!known.includes(collector)) {
    return [{ path: ['collector'], message: `must be a collector that is enabled: ${known.join(', ')}` }];
  }
  const rounds = roundsOf(collector, accounts);
  if (round === undefined || rounds.includes(round)) return [];
  return [{ path: ['round'], message: `must be a round of ${collector}: ${rounds.join(', ')}` }];
}

/** What the section says that the rest of the configuration, or the metrics, do not have. */
export function faultsOfAlerts(around: Around): Wrong[] {
  const { alerts, autoCancel, accounts } = around;
  const wrong = alerts.rules.flatMap(({ when, labels }, index) => {
    const at = ['alerts', 'rules', index, 'when', when.kind];
    return [
      ...faultsOfStale(when, around).map(each => ({ ...each, path: [...at, ...each.path] })),
      ...partsOf(when).flatMap(([path, selector, must]) =>
        // Sums have no labels that could be in the way.
        faultsOfSelector(selector, must, when.kind === 'ratio' ? [] : Object.keys(labels), accounts).map(each => ({
          ...each,
          path: [...at, ...path, ...each.path],
        })),
      ),
    ];
  });
  const isPausing = alerts.rules.some(({ name }) => autoCancel.pauseWhileAlerts.includes(name));
  if (!alerts.enabled && isPausing) {
    wrong.push({ path: ['autoCancel', 'pauseWhileAlerts'], message: 'needs alerts.enabled: true' });
  }
  return wrong;
}
