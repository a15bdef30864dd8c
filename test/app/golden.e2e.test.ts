import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';

/** The golden file is what `alerting.test.ts` finds to be written. */
it.skipIf(!requireProgram('promtool'))('the rules that the agent prints are good ones, of every kind', () => {
  const said = execFileSync('promtool', ['check', 'rules', 'test/app/golden/alert-rules.yaml'], { encoding: 'utf8' });
  expect(said).toContain('SUCCESS: 8 rules found');
});
