import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { problemAge } from '../../mixin/queries.ts';
import { newFolder } from '../support/folder.ts';
import { knownSeries } from './known-series.ts';
import { parsePromql, type Selector } from './parse-promql.ts';
import { promtools } from './promtool.ts';
import { dashboards, panelsOf } from './read-dashboards.ts';

/** Minutes at which problems start, the successor is first scraped, queries are evaluated, and the predecessor is last scraped. */
const [PROBLEMS, SUCCESSOR, EVALUATED, PREDECESSOR] = [1400, 1500, 1503, 1505];

/** Panels with numbers of each process, not of an account. */
const OF_PROCESSES = ['Processes', 'Leader and standbys', 'Notifications'];

const queries = dashboards.flatMap(([, dashboard]) =>
  panelsOf(dashboard)
    .filter(({ title }) => !OF_PROCESSES.includes(title))
    .flatMap(({ targets }) => targets.map(({ expr }) => expr)),
);

const TARGET_LABELS = ['job', 'instance', 'pod', 'replica', 'cluster', 'namespace', 'team', 'node'];

/** Returns the values of a label that a selector names, or an example if it names none. */
function valuesOf(label: string, matcher: string | undefined): readonly string[] {
  if (label === 'account') return ['acme'];
  if (label === 'le') return ['1', '+Inf'];
  const [, text = 'x'] = /^=~?"(.*)"$/.exec(matcher ?? '') ?? [];
  return text === '.+' ? ['x'] : text.split('|');
}

/** Returns the series that a selector selects, without target labels. */
const selectedBy = ({ name, matchers }: Selector): readonly string[] =>
  (knownSeries.get(name) ?? [])
    .filter(label => !TARGET_LABELS.includes(label))
    .reduce<readonly string[]>(
      (all, label) => all.flatMap(one => valuesOf(label, matchers[label]).map(value => `${one},${label}="${value}"`)),
      [''],
    )
    .map(labels => `${name}{JOB${labels}}`);

const allSeries = [...new Set(queries.flatMap(expr => parsePromql(expr).selectors.flatMap(selectedBy)))];

/** Returns the series of a process that is scraped from minute `from` on. Counters rise by one per minute. */
const seriesOf = (job: string, instance: string, from: number) =>
  allSeries.map(series => {
    const start = series.startsWith('delivery_problem{') ? Math.max(from, PROBLEMS) : from;
    const values = /_(total|bucket)\{/.test(series) ? `${start}+1` : '1+0';
    return {
      series: series.replace('JOB', `job="${job}",instance="${instance}"`),
      values: `${start === 0 ? '' : `_x${start} `}${values}x${PREDECESSOR - start} stale`,
    };
  });

const inJob = (expr: string, job: string) =>
  expr
    .replaceAll('$__range', '1h')
    .replaceAll(/\$__(rate_)?interval/g, '5m')
    .replaceAll('$job', job)
    .replaceAll(/\$(instance|account)\b/g, '.+');

/** Returns queries that must be empty: the query must have data, and a takeover must change it by less than a tenth. */
function wrong(expr: string): readonly string[] {
  const [usual, takeover] = ['alone', 'takeover'].map(job => `sum(abs(${inJob(expr, job)}))`);
  return [`absent(${usual})`, `${takeover} > 1.1 * ${usual}`, `${takeover} < 0.9 * ${usual}`];
}

interface Sample {
  readonly labels: string;
  readonly value: number;
}

const takeover = [
  ...seriesOf('alone', 'one:10922', 0),
  ...seriesOf('takeover', 'one:10922', 0),
  ...seriesOf('takeover', 'two:10922', SUCCESSOR),
];

/** Returns promtool's errors, which contain each query with an unexpected result. Default: queries must be empty. */
function errorsOf(
  promtool: string,
  exprs: readonly string[],
  input_series: readonly object[] = takeover,
  exp_samples: readonly Sample[] = [],
): string {
  const file = join(newFolder(), 'takeover.yaml');
  const promql_expr_test = exprs.map(expr => ({ expr, eval_time: `${EVALUATED}m`, exp_samples }));
  // Every JSON document is valid YAML.
  writeFileSync(file, JSON.stringify({ tests: [{ interval: '1m', input_series, promql_expr_test }] }));
  const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', file], {
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  });
  return status === 0 ? '' : `${stdout}${stderr}`;
}

describe.each(promtools)('takeovers in %s', promtool => {
  it('two processes that report the same account during a takeover do not change the numbers of the dashboards', () => {
    expect(errorsOf(promtool, queries.flatMap(wrong))).toBe('');
  });

  it('the age of a problem is the time since it last started, even if another process took over, and is absent after a day', () => {
    const problem = (kind: string, values: string, instance = 'one:10922') => ({
      series: `delivery_problem{job="a",instance="${instance}",account="acme",kind="${kind}",severity="warning"}`,
      values,
    });
    const input = [
      problem('replaced', '_x1400 1x60 stale'),
      problem('replaced', '_x1465 1x60', 'two:10922'),
      problem('repeated', '_x900 1x60 0x9 stale _x500 1x60'),
      problem('old', '1x1600'),
      problem('ended', '_x900 1x60 0x9 stale'),
    ];
    const age = (kind: string, minutes: number): Sample => ({
      labels: `{account="acme",kind="${kind}"}`,
      value: 60 * minutes,
    });
    const expected = [age('replaced', 103), age('repeated', EVALUATED - 1472)];
    expect(errorsOf(promtool, [inJob(problemAge, 'a')], input, expected)).toBe('');
  });

  it('the test finds a query that counts an account twice', () => {
    const twice = 'sum(delivery_dlq_messages{job=~"$job"})';
    expect(errorsOf(promtool, wrong(twice))).toContain('> 1.1 *');
  });
});
