import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allGroups } from '../../mixin/rules.ts';
import { bothVersions } from '../support/newer-packages.ts';

/** Returns the value of a series at a minute; undefined if there is no sample. NaN: a missing sample without a staleness marker. */
export type Values = (minute: number) => number | undefined;

/** Values by series with all labels. */
export type Input = Readonly<Record<string, Values>>;

/** Intervals (min) in which an alert fires, by `alertname account`, or `alertname` and how many fire (default 1). */
export type Fires = Readonly<Record<string, readonly (readonly [from: number, to: number])[]>>;

export interface RuleTest {
  readonly name: string;
  readonly input: Input;
  /** The last minute with samples. */
  readonly minutes: number;
  /** All alerts that fire. Times are exact to a minute. */
  readonly fires: Fires;
  /** Interval between samples and between evaluations (min). Default `DEFAULT_STEP`. */
  readonly step?: number;
}

const DEFAULT_STEP = 1;

export const promtools = bothVersions('promtool');

/** Converts values to promtool's notation, with `stale` at the end of a series. */
function samples(values: Values, minutes: number, step: number): string {
  const runs: { text: string; more: number }[] = [];
  let isPresent = false;
  for (let minute = 0; minute <= minutes; minute += step) {
    const value = values(minute);
    const text = value === undefined ? (isPresent ? 'stale' : '_') : Number.isNaN(value) ? '_' : String(value);
    if (value === undefined || !Number.isNaN(value)) isPresent = value !== undefined;
    const last = runs.at(-1);
    if (last?.text === text) last.more += 1;
    else runs.push({ text, more: 0 });
  }
  const written = ({ text, more }: (typeof runs)[number]) =>
    more === 0 ? text : text === '_' ? `_x${more + 1}` : `${text}x${more}`;
  // promtool has no notation for several staleness markers, but a marker is never repeated.
  return runs.map(written).join(' ');
}

const isIn = (minute: number, intervals: Fires[string]) =>
  intervals.some(([from, to]) => minute >= from && minute < to);
/** Whether an alert starts or ends within a minute, or within an interval between evaluations. */
const isNear = (minute: number, fires: Fires, step: number) =>
  Object.values(fires).some(intervals => intervals.flat().some(edge => Math.abs(minute - edge) <= Math.max(1, step)));

/** Returns the queries that find every alert that fires unexpectedly or does not fire. */
const queriesOf = ({ fires, minutes, step = DEFAULT_STEP }: RuleTest) =>
  Array.from({ length: minutes }, (_, minute) => minute)
    .filter(minute => minute % Math.max(1, step) === 0 && !isNear(minute, fires, step))
    .map(minute => ({
      expr: 'sum by (alertname, account) (ALERTS{alertstate="firing"})',
      eval_time: `${minute}m`,
      exp_samples: Object.entries(fires)
        .filter(([, intervals]) => isIn(minute, intervals))
        .map(([name]) => {
          const [alertname, of = '1'] = name.split(' ');
          const count = Number(of);
          const account = Number.isNaN(count) ? `,account="${of}"` : '';
          return { labels: `{alertname="${alertname}"${account}}`, value: account === '' ? count : 1 };
        }),
    }));

/** Runs `promtool test rules` on the default set or the given rules. Returns its errors; empty if all tests pass. */
export function testRules(
  promtool: string,
  tests: readonly RuleTest[],
  rules: readonly object[] = allGroups.default.rules,
): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-rules-'));
  try {
    // Every JSON document is valid YAML.
    writeFileSync(join(folder, 'rules.yaml'), JSON.stringify({ groups: [{ name: 'tested', rules }] }));
    const files = [...Map.groupBy(tests, ({ step = DEFAULT_STEP }) => step)].map(([step, tests]) => {
      const suite = {
        rule_files: ['rules.yaml'],
        evaluation_interval: `${60 * step}s`,
        tests: tests.map(test => ({
          name: test.name,
          interval: `${60 * step}s`,
          input_series: Object.entries(test.input).map(([series, values]) => ({
            series,
            values: samples(values, test.minutes, step),
          })),
          promql_expr_test: queriesOf(test),
        })),
      };
      writeFileSync(join(folder, `every-${step}m.yaml`), JSON.stringify(suite));
      return `every-${step}m.yaml`;
    });
    const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', ...files], {
      cwd: folder,
      encoding: 'utf8',
      maxBuffer: 64 << 20,
    });
    return status === 0 ? '' : `${stdout}${stderr}`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
