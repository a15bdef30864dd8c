import { execFileSync } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { newFolder } from '../support/folder.ts';
import { requireProgram } from '../support/prometheus.ts';

/** Golden file of the printed rules. `test/rules/alerting.test.ts` compares it with the output. */
const RULES = 'test/rules/golden/alert-rules.yaml';

describe.skipIf(!requireProgram('promtool'))('printed rules', () => {
  it('printed rules of every kind pass promtool', () => {
    expect(execFileSync('promtool', ['check', 'rules', RULES], { encoding: 'utf8' })).toContain(
      'SUCCESS: 6 rules found',
    );
  });

  it('a printed alert rule for old dead letters uses the maximum age across all replicas', () => {
    const folder = newFolder();
    copyFileSync(RULES, join(folder, 'rules.yaml'));
    const oldest = (instance: string) =>
      `delivery_dlq_oldest_entered_timestamp_seconds{job="x",instance="${instance}",account="a"}`;
    const test = {
      interval: '1h',
      input_series: [
        { series: oldest('one'), values: '0x40' },
        // This replica started an hour before the evaluation, without the stored state of the other one.
        { series: oldest('two'), values: '_x36 129600x4' },
      ],
      promql_expr_test: [
        {
          expr: 'count(ALERTS{alertname="Age", alertstate="firing"})',
          eval_time: '37h',
          exp_samples: [{ labels: '{}', value: 1 }],
        },
      ],
    };
    const suite = { rule_files: ['rules.yaml'], evaluation_interval: '1h', tests: [test] };
    writeFileSync(join(folder, 'test.yaml'), JSON.stringify(suite));
    expect(execFileSync('promtool', ['test', 'rules', 'test.yaml'], { cwd: folder, encoding: 'utf8' })).toContain(
      'SUCCESS',
    );
  });
});
