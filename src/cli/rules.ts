import { Command, InvalidArgumentError } from 'commander';
import { readRuleCase } from '../config/rule-cases.ts';
import type { Config } from '../config/schema.ts';
import { writeYaml } from '../config/yaml-file.ts';
import { warnOfBlindAlerts } from './blind-alerts.ts';
import { configuredAlerts, type RuleCheck, testRules } from './offline-rules.ts';
import { commandGroup, jobOption, linkOption, loadOptional, runbooksOption, servedLinks } from './option-values.ts';
import { DEFAULT_JOB, RULE_SETS, type RuleGroup, type RuleSet, type Settings, shippedRules } from './shipped.ts';

const words = (verdict: string, reason: string | undefined) =>
  reason === undefined || reason === verdict ? verdict : `${verdict} (${reason})`;

/** Formats a check in one line. Adds the predicates if the result is unexpected. */
function toLines(file: string, { expected, verdict, finding, isAsExpected }: RuleCheck): string[] {
  const at = new Date(expected.at).toISOString();
  const asked = words(expected.verdict, expected.reason);
  const found = words(verdict, finding?.reason);
  const subject = `${file}: ${expected.rule} ${expected.dlqId} ${at}`;
  if (isAsExpected) return [`ok    ${subject}: ${found}`];
  return [
    `WRONG ${subject}: expected ${asked}, found ${found}`,
    ...(finding?.predicates ?? []).map(
      ({ name, holds, found, asked }) =>
        `      ${holds === true ? 'holds' : holds || 'fails'} ${name}: ${found}; required: ${asked}`,
    ),
  ];
}

function testCommand(): Command {
  return new Command('test')
    .description('run offline test cases of auto-cancel rules; exit 1 if a verdict differs')
    .argument('<file...>', 'test case files')
    .option('--config <file>', 'configuration with the rules for files that contain none; needs no secrets')
    .action((files: string[], { config: file }: { config?: string }) => {
      const own = loadOptional(file);
      const cases = files.map(file => ({ file, checks: testRules(readRuleCase(file), own) }));
      const checks = cases.flatMap(({ checks }) => checks);
      const lines = cases.flatMap(({ file, checks }) => checks.flatMap(check => toLines(file, check)));
      process.stdout.write(`${lines.join('\n')}\n`);
      const wrong = checks.filter(({ isAsExpected }) => !isAsExpected).length;
      if (wrong > 0) throw new Error(`${wrong} of ${checks.length} expectations are not met`);
    });
}

interface PrintOptions extends Pick<Settings, 'job' | 'runbooks' | 'grafana'> {
  readonly config?: string;
  readonly set: readonly RuleSet[];
}

function setsOption(text: string): readonly RuleSet[] {
  const names = text.split(',').map(name => name.trim());
  const sets = RULE_SETS.filter(set => names.includes(set));
  const unknown = names.filter(name => !RULE_SETS.some(set => set === name));
  if (unknown.length === 0) return sets;
  throw new InvalidArgumentError(
    `Unknown: ${unknown.map(name => JSON.stringify(name)).join(', ')}. Allowed: ${RULE_SETS.join(', ')}.`,
  );
}

/** Returns the group of configured alerts. */
function configuredGroup(shipped: readonly RuleGroup[], config: Config): readonly RuleGroup[] {
  const { interval, rules } = configuredAlerts(config);
  if (rules.length === 0) return [];
  const names = new Set(shipped.flatMap(group => group.rules.map(({ alert }) => alert)));
  for (const { alert } of rules) {
    if (!names.has(alert)) continue;
    process.stderr.write(`warning: the alert ${alert} has the name of a shipped alert: silences apply to both\n`);
  }
  return [{ name: 'delivery-configured', interval, rules }];
}

function printCommand(): Command {
  return new Command('print')
    .description('print the shipped rules and the configured alerts as a Prometheus rule file (YAML)')
    .option(
      '--config <file>',
      'configuration file with alerts, which apply to the accounts of all agents unless labels.account limits them; needs no secrets',
    )
    .option('--set <names>', `sets of shipped rules: ${RULE_SETS.join(', ')}`, setsOption, ['default'])
    .option('--job <name>', 'scrape job of the agents', jobOption, DEFAULT_JOB)
    .addOption(runbooksOption())
    .option('--grafana <url>', 'address of Grafana: alerts link to its dashboards (default: no link)', linkOption)
    .action(async ({ config: file, set: sets, ...places }: PrintOptions) => {
      const own = loadOptional(file);
      if (own) await warnOfBlindAlerts(own, sets);
      const ofConfig = own && { ...servedLinks(own), enable: own.alerts.builtin?.enable ?? [] };
      const rules = shippedRules({ ...ofConfig, ...places });
      const shipped = sets.map(set => rules[set]);
      const configured = own ? configuredGroup(shipped, own) : [];
      process.stdout.write(writeYaml({ groups: [...shipped, ...configured] }));
    });
}

export const rulesCommand = (): Command =>
  commandGroup('rules', 'print alert rules, and test auto-cancel rules', [printCommand(), testCommand()]);
