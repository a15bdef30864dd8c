import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { alertGroups, alertingRule, records } from '../../src/mixin/rules.ts';
import type { Input, Values } from './alert-cases.ts';

/** Expected alerts at a minute, with everything that they say; or whether, and with which value, an expression has series. */
export interface RuleTest {
  readonly name: string;
  /** Series with all their labels. */
  readonly input: Input;
  /** The last minute that the series have samples for. */
  readonly minutes: number;
  readonly alerts?: readonly {
    readonly alert: string;
    readonly minute: number;
    readonly expected: readonly object[];
  }[];
  readonly queries?: readonly {
    readonly expr: string;
    readonly minute: number;
    readonly expected: readonly object[];
  }[];
}

/** promtool's notation: `_` for no sample, `stale` where a series ends. */
function samples(values: Values, minutes: number): string {
  let before: number | undefined;
  const written = Array.from({ length: minutes + 1 }, (_, minute) => {
    const value = values(minute);
    const text = value === undefined ? (before === undefined ? '_' : 'stale') : String(value);
    before = value;
    return text;
  });
  return written.join(' ');
}

/** Some alerts and what they are computed from: all of them would take minutes. */
function rulesOf(names: readonly string[]) {
  const rules = alertGroups
    .flatMap(({ alerts }) => alerts)
    .filter(({ name }) => names.includes(name))
    .map(alertingRule);
  const used = records.filter(({ record }) => rules.some(({ expr }) => expr.includes(record)));
  return { groups: [{ name: 'tested', rules: [...used, ...rules] }] };
}

/**
 * Tests that ask only about ALERTS, as one with a job for each: an evaluation of the rules costs nearly the same for one series
 * and for a hundred.
 */
export function asJobs(tests: readonly RuleTest[]): RuleTest {
  const jobs = new Set(tests.map(({ name }) => name));
  if (jobs.size < tests.length) throw new Error(`two tests have one name: ${tests.map(({ name }) => name)}`);
  return {
    name: 'each a job of its own',
    input: Object.fromEntries(
      tests.flatMap(({ name, input, minutes }) =>
        Object.entries(input).map(([series, values]) => [
          series.replace(`job="${JOB}"`, `job="${name}"`),
          (minute: number) => (minute > minutes ? undefined : values(minute)),
        ]),
      ),
    ),
    minutes: Math.max(...tests.map(({ minutes }) => minutes)),
    queries: tests.flatMap(({ name, queries = [] }) =>
      queries.map(query => ({ ...query, expr: query.expr.replaceAll('ALERTS{', `ALERTS{job="${name}", `) })),
    ),
  };
}

/** Runs `promtool test rules` on rules as they are generated. Gives what it finds wrong; nothing when all is well. */
export function testRules(alerts: readonly string[], tests: readonly RuleTest[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-rules-'));
  try {
    // JSON is YAML.
    writeFileSync(join(folder, 'rules.yaml'), JSON.stringify(rulesOf(alerts)));
    const suite = {
      rule_files: ['rules.yaml'],
      evaluation_interval: '1m',
      tests: tests.map(({ name, input, minutes, alerts = [], queries = [] }) => ({
        name,
        interval: '1m',
        input_series: Object.entries(input).map(([series, values]) => ({ series, values: samples(values, minutes) })),
        alert_rule_test: alerts.map(({ alert, minute, expected }) => ({
          alertname: alert,
          eval_time: `${minute}m`,
          exp_alerts: expected,
        })),
        promql_expr_test: queries.map(({ expr, minute, expected }) => ({
          expr,
          eval_time: `${minute}m`,
          exp_samples: expected,
        })),
      })),
    };
    writeFileSync(join(folder, 'test.yaml'), JSON.stringify(suite));
    const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'test.yaml'], {
      cwd: folder,
      encoding: 'utf8',
    });
    return status === 0 ? '' : `${stdout}${stderr}`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const JOB = 'delivery-watch';

const isOfAgent = (family: string) => family === 'delivery_watch_notifications_total';

/** Series of one replica, each changed. */
export function replica(
  input: Input,
  instance = 'one:10922',
  change: (series: string, values: Values) => Values = (_, v) => v,
) {
  return Object.fromEntries(
    Object.entries(input).map(([series, values]) => {
      const [, name = '', labels = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? [];
      const all = [
        `job="${JOB}"`,
        `instance="${instance}"`,
        `replica="${instance}"`,
        ...(isOfAgent(name) ? [] : ['account="a"']),
        ...(labels === '' ? [] : [labels]),
      ];
      return [`${name}{${all.join(',')}}`, change(series, values)];
    }),
  ) as Input;
}

const firing = (alert: string) => `count(ALERTS{alertname="${alert}", alertstate="firing"})`;
/** It fires at that minute, for one thing. */
export const fires = (alert: string, minute: number) => ({
  expr: firing(alert),
  minute,
  expected: [{ labels: '{}', value: 1 }],
});
export const isQuiet = (alert: string, minute: number) => ({ expr: firing(alert), minute, expected: [] });
