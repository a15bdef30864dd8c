import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';

const EXAMPLE = ['--config', 'examples/auto-cancel.yaml'];

/**
 * Writes a rule case with one entry, listed every 5 minutes for 60 hours, and one expectation with `verdict`. Returns the
 * file’s path.
 */
function stuck(verdict: string): string {
  const file = join(newFolder(), 'case.yaml');
  const dlq = '[{ dlqId: 1-0, messageId: m1, label: x, failureFunctionState: CALLBACK_INPROGRESS }]';
  writeFileSync(
    file,
    `
autoCancel:
  rules: [{ name: r, match: { label: { in: [x] } } }]
snapshots:
  - { at: +0h, every: 5m, until: +60h, dlq: ${dlq} }
expect:
  - { at: +50h, dlqId: 1-0, rule: r, verdict: ${verdict} }
`,
  );
  return file;
}

describe('offline rule tests', () => {
  it('rules test prints a line for each expectation', async () => {
    const file = stuck('stuck');
    expect(await runCli(['rules', 'test', file])).toEqual({
      code: 0,
      stderr: '',
      stdout: [`ok    ${file}: r 1-0 2027-01-03T02:00:00.000Z: stuck`, ''].join('\n'),
    });
  });

  it('rules test exits with 1 if an expectation is not met, and shows the result of every predicate', async () => {
    const file = stuck('unknown, reason: no_id');
    const { code, stdout, stderr } = await runCli(['rules', 'test', stuck('stuck'), file]);
    expect(code).toBe(1);
    expect(stderr).toBe('1 of 2 expectations are not met\n');
    expect(stdout).toContain(`WRONG ${file}: r 1-0 2027-01-03T02:00:00.000Z: expected unknown (no_id), found stuck\n`);
    expect(stdout).toContain('      holds stuckWhen.inProgressFor: 2 d 2 h; required: at least 2 d\n');
  });

  it('rules test accepts all cases of examples/auto-cancel.yaml, and rejects them after a change of an expectation', async () => {
    const files = globSync('examples/rules/*.yaml');
    expect(await runCli(['rules', 'test', ...files, ...EXAMPLE])).toMatchObject({ code: 0, stderr: '' });
    const changed = join(newFolder(), 'hung.yaml');
    const right = readFileSync('examples/rules/hung.yaml', 'utf8');
    const wrong = right.replace('dlqId: 1-0, rule: workflows-hung, verdict: stuck', match =>
      match.replace('stuck', 'unknown'),
    );
    expect(wrong).not.toBe(right);
    writeFileSync(changed, wrong);
    const { code, stdout } = await runCli(['rules', 'test', changed, ...files, ...EXAMPLE]);
    expect({ code, wrong: stdout.match(/^WRONG .*/gm) }).toEqual({
      code: 1,
      wrong: [`WRONG ${changed}: workflows-hung 1-0 2027-01-03T01:00:00.000Z: expected unknown, found stuck`],
    });
  });

  it('rules test exits with 2 on a missing file, a missing argument or an invalid configuration, and needs no secrets', async () => {
    expect((await runCli(['rules', 'test', 'nowhere.yaml'])).code).toBe(2);
    expect((await runCli(['rules', 'test'])).code).toBe(2);
    expect(
      (await runCli(['rules', 'test', 'x', '--config', 'test/config/bad/rule-with-keys-of-other-evidence.yaml'])).code,
    ).toBe(2);
    expect((await runCli(['rules', 'test', 'examples/rules/unreported.yaml', ...EXAMPLE])).code).toBe(0);
  });
});
