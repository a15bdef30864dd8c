import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createCommandHandler } from '../../src/auto-cancel/command-handler.ts';
import type { Explanation } from '../../src/auto-cancel/explain.ts';
import { openJournal } from '../../src/auto-cancel/journal.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { runCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { createTestLog } from '../support/silent.ts';

/** A store with an agent at it, and the command line beside it: without a token, and with a file that has other faults. */
async function setUp() {
  const folder = newFolder();
  const path = join(folder, 'watch.db');
  const config = join(folder, 'config.yaml');
  writeFileSync(
    config,
    `accounts:
  - { name: a, baseUrl: "https://a.example.com", token: { env: NOT_SET_A } }
  - { name: b, baseUrl: nowhere, token: { env: NOT_SET_B }, colour: red }
upstream: { proxy: { env: NOT_SET_EITHER } }
store: { path: ${path} }
`,
  );
  const store = await openStore({ kind: 'sqlite', path });
  const journals = await Promise.all(['a', 'b'].map(async name => ({ name, journal: await openJournal(store, name) })));
  const explanation = (name: string, dlqId: string): Explanation => ({
    account: name,
    dlqId,
    messageId: undefined,
    url: undefined,
    workflowUrl: undefined,
    action: undefined,
    firstSeenAt: 0,
    lastSeenAt: 0,
    snapshots: 1,
    owner: undefined,
    findings: [],
    held: undefined,
    paused: journals.find(each => each.name === name)?.journal.state.paused,
    attempts: 0,
    outcome: undefined,
    mayApprove: false,
  });
  const commands = createCommandHandler({
    store,
    accounts: () => journals.map(each => ({ ...each, policy: 'p', explain: id => explanation(each.name, id) })),
    clock: systemClock,
    log: createTestLog(),
  });
  const stop = new AbortController();
  const serving = (async () => {
    while (!stop.signal.aborted) {
      await commands.serve();
      await setTimeout(20);
    }
  })();
  afterThisTest(async () => {
    stop.abort();
    await serving;
    await store.close();
  });
  const cli = async (...args: string[]) => {
    const { code, stdout, stderr } = await runCli(['auto-cancel', ...args, '--config', config]);
    return { code, said: (stdout + stderr).trimEnd().replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME') };
  };
  return { cli, journals, config };
}

it('the brakes need the store alone, and say what was so before', async () => {
  const { cli, journals } = await setUp();
  const done = (said: string) => ({ code: 0, said });
  const as = (by: string, reason: string) => ['--by', by, '--reason', reason];
  expect(await cli('resume', ...as('ann', 'over'))).toEqual(done('it was not paused: nothing changed'));
  expect(await cli('pause', ...as('ann', 'incident'))).toEqual(done('paused'));
  expect(await cli('pause', ...as('bob', 'another'))).toEqual(
    done('paused; it was paused before, since TIME by ann: incident'),
  );
  expect((await cli('explain', '1-0', '--account', 'b')).said).toContain(
    'auto-cancel is paused since TIME by bob: another',
  );
  expect(await cli('resume', ...as('ann', 'over'))).toEqual(done('resumed; it was paused since TIME by bob: another'));
  expect(await cli('reset-breaker', 'errors', ...as('ann', 'mended'))).toEqual(
    done('the breaker errors was not open: nothing changed'),
  );
  await journals[1]?.journal.append([{ at: 1, step: 'breaker_opened', breaker: 'errors', reason: '3 cancels failed' }]);
  expect(await cli('reset-breaker', 'errors', ...as('ann', 'mended'))).toEqual(
    done('breaker errors reset; it was open since TIME: 3 cancels failed'),
  );
  expect(await cli('approve', 'none')).toEqual({ code: 1, said: 'no action none waits for approval' });
  // What changed nothing is no line of the journal.
  const steps = (await cli('journal', '--json')).said.split('\n').map(line => JSON.parse(line));
  expect(steps.filter(({ account }) => account === 'b').map(({ step }) => step)).toEqual([
    'breaker_opened',
    'paused',
    'paused',
    'resumed',
    'breaker_reset',
  ]);
  expect(steps.filter(({ account }) => account === 'a').map(({ step }) => step)).toEqual([
    'paused',
    'paused',
    'resumed',
  ]);
});

it('the brakes hold where the file is no YAML below the store', async () => {
  const { cli, config } = await setUp();
  appendFileSync(config, 'alerts: { enabled: true\ntracing: {}\n');
  expect(await cli('pause', '--by', 'ann', '--reason', 'incident')).toEqual({ code: 0, said: 'paused' });
  // Accounts may stand where nothing could be read.
  expect(await cli('journal')).toMatchObject({ code: 2, said: expect.stringContaining('is not closed') });
});

it('a store that can’t be found is said with its place', async () => {
  const folder = newFolder();
  const file = join(folder, 'config.yaml');
  const pause = async (text: string) => {
    writeFileSync(file, text);
    const { code, stderr } = await runCli(['auto-cancel', 'pause', '--reason', 'x', '--config', file]);
    return { code, stderr: stderr.replaceAll(folder, '') };
  };
  expect(await pause('store: { kind: floppy }')).toEqual({
    code: 2,
    stderr: '/config.yaml:1:16: store.kind: must be sqlite, memory or postgres\n',
  });
  expect(await pause('store:\n  kind: sqlite\n   path: x\n')).toMatchObject({ code: 2 });
});
