import { expect, test } from 'vitest';
import { scenarios } from '../../src/emulator/scenarios.ts';
import { runCli, startCli } from '../support/cli.ts';

test('demo --help lists the scenarios', async () => {
  const { stdout } = await runCli(['demo', '--help']);
  for (const [name, { description }] of Object.entries(scenarios)) {
    expect(description).toMatch(/^.{30,}$/);
    expect(stdout).toContain(`\n  ${name}\n      ${description}\n`);
  }
});

test.each([
  ['60', /Time runs 60 times as fast, but only for this service\. Agents and Prometheus keep real time/],
  ['0', /The clock of this service is stopped\./],
])('emulate --speed %s prints how the emulated clock differs from real time', async (speed, note) => {
  const cli = startCli(['emulate', '--port', '0', '--speed', speed]);
  try {
    await cli.says(note);
  } finally {
    cli.kill('SIGTERM');
  }
  expect(await cli.ended).toBe(0);
});
