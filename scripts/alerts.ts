import { readFileSync } from 'node:fs';
import { NAMED } from '../mixin/catalogue.ts';
import { alerts } from '../mixin/rules.ts';
import { sloRules } from '../mixin/slo.ts';
import { filled } from '../src/cli/shipped.ts';
import { formatDuration } from '../src/kit/duration.ts';
import { AGENT_CHECKS } from '../src/rules/checks/agent.ts';
import { ACCOUNT_CHECKS } from '../src/rules/checks/run.ts';
import { longText } from '../src/rules/checks/words.ts';
import { withPart } from './generated-part.ts';

const CHECKS = [...ACCOUNT_CHECKS, ...AGENT_CHECKS];

const runbookOf = (alert: string) => `docs/runbooks/${alert}.md`;

/** Returns the two durations of a check. Those at the end that are 0 are omitted. */
const timesOf = (pending: number, keepFiringFor: number) =>
  keepFiringFor > 0
    ? `, ${pending === 0 ? '0s' : formatDuration(pending)}, ${formatDuration(keepFiringFor)}`
    : pending > 0
      ? `, ${formatDuration(pending)}`
      : '';

/** Returns the impact in an alert's runbook. Throws an Error if the runbook has none. */
function impactOf(alert: string): string {
  const [, impact] = /^Impact: (.*)$/m.exec(readFileSync(runbookOf(alert), 'utf8')) ?? [];
  if (impact === undefined) throw new Error(`the runbook ${alert} has no impact`);
  return `Impact: ${impact.replaceAll(/\]\((\w+\.md)\)/g, '](runbooks/$1)')}`;
}

/** Replaces the templates of a Prometheus annotation by the names of its values. */
const withoutTemplates = (summary: string) =>
  String(filled(JSON.stringify(summary), {}))
    .replace(/\{\{ with \$labels\.(\w+) \}\}(.*?)\{\{ \. \}\}(.*?)\{\{ end \}\}/g, '$2*$1*$3')
    .replace(/\{\{ (?:\$labels\.)?\$?(\w+).*? \}\}/g, '*$1*');

/** Returns the section of an alert, whose conditions are list items. */
const alertSection = (alert: string, conditions: readonly string[]) => [
  `#### [${alert}](runbooks/${alert}.md)`,
  impactOf(alert),
  [...new Set(conditions)].map(condition => `- ${condition}`).join('\n'),
];

const NAMED_KINDS = new Set(NAMED.flatMap(({ kinds }) => kinds));

function checksSection([alert, checks]: readonly [string, typeof CHECKS]): string[] {
  const conditions = checks.map(({ kind, severity, when, isOff, for: pending, keepFiringFor }) => {
    const isNamed = NAMED.some(named => named.alert === alert);
    const other = isNamed && !NAMED_KINDS.has(kind) ? '; in Prometheus: DeliveryProblem' : '';
    return `\`${kind}\` (${severity}${timesOf(pending, keepFiringFor)}${isOff ? ', off' : ''}${other}): ${when}.`;
  });
  return alertSection(alert, conditions);
}

/** Returns the catalogue of alerts in docs/alerts.md, based on the tables of checks, the rules and the runbooks. */
export function alertCatalogue(): string {
  const named = new Set<string>(NAMED.map(({ alert }) => alert));
  const byAlert = [...Map.groupBy(CHECKS, ({ alert }) => alert)];
  const onlyRules = alerts.flatMap(({ alert, summary, labels, for: pending = '0s' }) =>
    labels ? alertSection(alert, [`${labels.severity}, ${pending}: ${withoutTemplates(summary)}`]) : [],
  );
  const slo = sloRules.flatMap(({ alert, labels, annotations }) =>
    alert === undefined ? [] : `- \`${alert}\` (${labels?.severity}): ${withoutTemplates(annotations?.summary ?? '')}`,
  );
  return [
    `The parentheses contain severity, \`for\` and \`keepFiringFor\` (default: 0s). *off*: the agent sends this kind only if \`alerts.builtin.enable\` lists it. A message is overdue once the time \`objectives.onTimeWithin\` has passed since it was due. While a condition is unknown, its alert does not change.`,
    '### Only in Prometheus',
    ...onlyRules,
    '#### Objectives (`slo.yaml`)',
    slo.join('\n'),
    '### In Prometheus and the agent',
    ...byAlert.filter(([alert]) => named.has(alert)).flatMap(checksSection),
    '### In Prometheus as DeliveryProblem',
    ...byAlert.filter(([alert]) => !named.has(alert)).flatMap(checksSection),
  ].join('\n\n');
}

/** Returns the runbooks with the conditions of their kinds of problems, and the list of all kinds. */
export function runbooks(): Readonly<Record<string, string>> {
  const conditions = [...Map.groupBy(CHECKS, ({ alert }) => alert)].map(([alert, checks]) => {
    const lines = checks.map(({ kind, severity, when, for: pending }) => {
      const lasting = pending === 0 ? '' : `, for ${longText(pending)}`;
      return `- \`${kind}\` (${severity}${lasting}): ${when}.`;
    });
    return [runbookOf(alert), withPart(runbookOf(alert), 'conditions', [...new Set(lines)].join('\n'))];
  });
  const alertOf = new Map(CHECKS.map(({ kind, alert }) => [kind, alert]));
  const kinds = [...alertOf]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([kind, alert]) => `- \`${kind}\`: [${alert}](${alert}.md)`);
  const problem = runbookOf('DeliveryProblem');
  return { ...Object.fromEntries(conditions), [problem]: withPart(problem, 'kinds', kinds.join('\n')) };
}
