import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allGroups, records } from '../../mixin/rules.ts';
import type { Input, Values } from './cases/case.ts';
import { knownSeries } from './known-series.ts';

/**
 * Input series and expectations: alerts that fire at a given minute, with all labels and annotations, and results of
 * expressions.
 */
export interface RuleTest {
  readonly name: string;
  /** Input series with all labels. */
  readonly input: Input;
  /** The last minute with samples. */
  readonly minutes: number;
  /** Interval between samples and between evaluations (minutes). Default 1; 0.25 is the shipped scrape interval. */
  readonly step?: number | undefined;
  readonly alerts?: readonly {
    readonly alert: string;
    readonly minute: number;
    readonly expected: readonly object[];
  }[];
  readonly queries?: readonly Query[];
}

export interface Query {
  readonly expr: string;
  readonly minute: number;
  readonly expected: readonly object[];
}

/**
 * Converts values to promtool's notation: `a+bxn` for n more samples, each b higher; `_` for no sample; `stale` at the
 * end of a series. NaN is a missing sample without a staleness marker.
 */
export function samples(values: Values, minutes: number, step = 1): string {
  const written: string[] = [];
  let run: { first: number; by: number; more: number } | undefined;
  let before: number | undefined;
  const end = () => {
    if (run) written.push(run.more === 0 ? String(run.first) : `${run.first}${signed(run.by)}x${run.more}`);
    run = undefined;
  };
  for (let minute = 0; minute <= minutes; minute += step) {
    const value = values(minute);
    const by = (value ?? 0) - (before ?? 0);
    if (value === undefined) {
      end();
      written.push(before === undefined ? '_' : 'stale');
    } else if (Number.isNaN(value)) {
      end();
      written.push('_');
    } else if (run && Number.isInteger(by) && Number.isInteger(run.first) && (run.more === 0 || by === run.by)) {
      run = { ...run, by, more: run.more + 1 };
    } else {
      end();
      run = { first: value, by: 0, more: 0 };
    }
    before = Number.isNaN(value) ? undefined : value;
  }
  end();
  return written.join(' ');
}
const signed = (by: number) => (by < 0 ? String(by) : `+${by}`);

/** Returns the rules of these alerts and the recording rules that they use. Testing all rules would take minutes. */
function rulesOf(names: readonly string[]) {
  const rules = allGroups
    .flatMap(({ rules }) => rules)
    .filter(({ alert }) => alert !== undefined && names.includes(alert));
  const used = new Set<string>();
  const use = (expr: string) => {
    for (const { record } of records) {
      if (used.has(record) || !expr.includes(record)) continue;
      used.add(record);
      for (const further of records) if (further.record === record) use(further.expr);
    }
  };
  for (const { expr } of rules) use(expr);
  return { groups: [{ name: 'tested', rules: [...records.filter(({ record }) => used.has(record)), ...rules] }] };
}

/**
 * Combines tests that only query ALERTS and have the same step into one test, with a job label for each, because evaluating
 * rules takes about as long for a hundred series as for one.
 */
export function asJobs(tests: readonly RuleTest[]): RuleTest[] {
  const jobs = new Set(tests.map(({ name }) => name));
  if (jobs.size < tests.length) throw new Error(`two tests have the same name: ${tests.map(({ name }) => name)}`);
  return [...Map.groupBy(tests, ({ step = 1 }) => step)].map(([step, tests]) => ({
    name: `one job per test, every ${step} min`,
    step,
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
  }));
}

const named = (series: string) => {
  const [, name = '', labels = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? [];
  return { name, labels };
};

/** Throws an Error if a series is not exposed by any agent. */
export function requireExisting(input: Input): void {
  for (const series of Object.keys(input)) {
    const { name, labels } = named(series);
    const known = knownSeries.get(name);
    const unknown = [...labels.matchAll(/(\w+)="/g)].filter(([, label]) => !known?.includes(label ?? ''));
    if (!known || unknown.length > 0) throw new Error(`no agent has the series ${series}`);
  }
}

/** Returns all words in the rules of these alerts, which include the names of used series. */
export const namesInRules = (alerts: readonly string[]): ReadonlySet<string> =>
  new Set(JSON.stringify(rulesOf(alerts)).match(/\w+/g));

/** Runs `promtool test rules` on the generated rules. Returns its errors; empty if all pass. */
export function testRules(alerts: readonly string[], tests: readonly RuleTest[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-rules-'));
  try {
    const rules = JSON.stringify(rulesOf(alerts));
    const names = namesInRules(alerts);
    // Every JSON document is valid YAML.
    writeFileSync(join(folder, 'rules.yaml'), rules);
    const files = [...Map.groupBy(tests, ({ step = 1 }) => step)].map(([step, tests]) => {
      const suite = {
        rule_files: ['rules.yaml'],
        evaluation_interval: seconds(step),
        tests: tests.map(test => promtoolTest(test, step, names)),
      };
      writeFileSync(join(folder, `every-${step}m.yaml`), JSON.stringify(suite));
      return `every-${step}m.yaml`;
    });
    const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', ...files], {
      cwd: folder,
      encoding: 'utf8',
      maxBuffer: 64 << 20,
      // Reduce garbage collection, which would take a fifth of the time. The process uses more memory, but only for seconds.
      env: { ...process.env, GOGC: '400' },
    });
    return status === 0 ? '' : inShort(`${stdout}${stderr}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the labels of the alerts that fire at each of these minutes. */
export function firingAt(
  minutes: readonly number[],
  alerts: readonly string[],
  test: Omit<RuleTest, 'alerts' | 'queries'>,
): Map<number, Labels[]> {
  // promtool prints only unexpected results, so the query expects none. The printed matcher on `minute`, which excludes
  // nothing, identifies the minute.
  const query = (minute: number) => ({
    expr: `ALERTS{alertstate="firing", minute!="${minute}"}`,
    minute,
    expected: [],
  });
  const output = testRules(alerts, [{ ...test, queries: minutes.map(query) }]);
  const found = output.matchAll(/minute!=\\"(\d+)\\".*\s+exp: .*\s+got: (.*)/g);
  const firing = new Map([...found].map(([, minute, vector = '']) => [Number(minute), labelsIn(vector)]));
  return new Map(minutes.map(minute => [minute, firing.get(minute) ?? []]));
}

type Labels = Readonly<Record<string, string>>;

/** Parses the labels of each alert in a printed vector. */
const labelsIn = (vector: string): Labels[] =>
  [...vector.matchAll(/\{(.*?)\} 1/g)].map(([, labels = '']) => {
    const all = [...labels.matchAll(/(\w+)="(.*?)"/g)].map(([, name = '', value = '']) => [name, value] as const);
    return Object.fromEntries(all.filter(([name]) => name !== '__name__' && name !== 'alertstate'));
  });

/** Shortens errors of combined tests to one line each: test, time, actual and expected value. */
const inShort = (output: string) =>
  output.replaceAll(
    /expr: ".*?job=\\"([^"\\]+)\\".*", time: (\S+),\s+exp: ?(.*)\s+got: ?(.*)/g,
    (_, name, time, expected, got) => `${name}: at ${time} ${got}, not ${expected}`,
  );

const seconds = (minutes: number) => `${60 * minutes}s`;

function promtoolTest(
  { name, input, minutes, alerts = [], queries = [] }: RuleTest,
  step: number,
  names: ReadonlySet<string>,
) {
  return {
    name,
    interval: seconds(step),
    // Omit series that no rule uses, to save time.
    input_series: Object.entries(input)
      .filter(([series]) => names.has(named(series).name))
      .map(([series, values]) => ({ series, values: samples(values, minutes, step) })),
    alert_rule_test: alerts.map(({ alert, minute, expected }) => ({
      alertname: alert,
      eval_time: seconds(minute),
      exp_alerts: expected,
    })),
    promql_expr_test: queries.map(({ expr, minute, expected }) => ({
      expr,
      eval_time: seconds(minute),
      exp_samples: expected,
    })),
  };
}

export const JOB = 'delivery-watch';

const isOfAgent = (name: string) => name === 'up' || !knownSeries.get(name)?.includes('account');

/** Labels that the scrape adds, except for the job. */
export interface Target {
  readonly instance: string;
  /** Default `a`. */
  readonly account?: string;
  readonly cluster?: string;
  readonly namespace?: string;
  readonly team?: string;
  readonly node?: string;
}

/** Returns the series of one replica with all labels. Throws an Error if no agent exposes one of them. */
export function replica(input: Input, target: string | Target = 'one:10922'): Input {
  requireExisting(input);
  const { instance, account = 'a', ...more } = typeof target === 'string' ? { instance: target } : target;
  return Object.fromEntries(
    Object.entries(input).map(([series, values]) => {
      const { name, labels } = named(series);
      const all = [
        `job="${JOB}"`,
        `instance="${instance}"`,
        `replica="${instance}"`,
        ...Object.entries(more).map(([label, value]) => `${label}="${value}"`),
        ...(isOfAgent(name) ? [] : [`account="${account}"`]),
        ...(labels === '' ? [] : [labels]),
      ];
      return [`${name}{${all.join(',')}}`, values];
    }),
  );
}

const firing = (alert: string) => `count(ALERTS{alertname="${alert}", alertstate="firing"})`;
/** Expects that exactly one instance of the alert is firing at `minute`. */
export const fires = (alert: string, minute: number): Query => ({
  expr: firing(alert),
  minute,
  expected: [{ labels: '{}', value: 1 }],
});
export const isQuiet = (alert: string, minute: number): Query => ({ expr: firing(alert), minute, expected: [] });

/** Expects that the alert does not fire from minute `from` to minute `to`, both inclusive. */
export const isQuietFrom = (alert: string, from: number, to: number): Query => ({
  expr: `count(count_over_time(ALERTS{alertname="${alert}", alertstate="firing"}[${60 * (to - from)}s]))`,
  minute: to,
  expected: [],
});
/** Expects that the alert has not fired up to `minute`. */
export const neverFired = (alert: string, minute: number): Query => isQuietFrom(alert, -1, minute);

/** Expects that exactly one instance of the alert is firing in this namespace, and none in any other. */
export const firesIn = (alert: string, namespace: string, minute: number): Query => ({
  expr: `count by (namespace) (ALERTS{alertname="${alert}", alertstate="firing"})`,
  minute,
  expected: [{ labels: `{namespace="${namespace}"}`, value: 1 }],
});
