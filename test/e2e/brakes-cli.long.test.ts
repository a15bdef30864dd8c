import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { BRAKE, createBrake } from '../../src/auto-cancel/brake.ts';
import { openJournal } from '../../src/auto-cancel/journal.ts';
import { createOrders } from '../../src/auto-cancel/orders.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { runCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { createTestLog } from '../support/silent.ts';

/** Sets up a store that an agent uses, and a CLI with an invalid configuration file and without tokens. */
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
  const log = createTestLog();
  const brake = createBrake(store, systemClock, log);
  const accounts = () => journals.map(each => ({ ...each, policy: 'p' }));
  const executeOrders = createOrders({ store, accounts, clock: systemClock, log });
  const stop = new AbortController();
  const serving = (async () => {
    while (!stop.signal.aborted) {
      await brake.synchronize(journals.map(({ journal }) => journal));
      await executeOrders();
      await setTimeout(20);
    }
  })();
  const end = async () => {
    stop.abort();
    await serving;
  };
  afterThisTest(async () => {
    await end();
    await store.close();
  });
  const cli = async (...args: string[]) => {
    const { code, stdout, stderr } = await runCli(['auto-cancel', ...args, '--config', config]);
    return { code, said: (stdout + stderr).trimEnd().replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME') };
  };
  return { cli, journals, config, store, stop: end };
}

it('the brake commands need only the store and report the previous state', async () => {
  const { cli, journals } = await setUp();
  const done = (said: string) => ({ code: 0, said });
  const as = (by: string, reason: string) => ['--by', by, '--reason', reason];
  expect(await cli('resume', ...as('ann', 'over'))).toEqual(done('auto-cancel was not paused: nothing changed'));
  expect(await cli('pause', ...as('ann', 'incident'))).toEqual(done('paused'));
  expect(await cli('pause', ...as('bob', 'another'))).toEqual(
    done('paused; it was already paused since TIME by ann: incident'),
  );
  expect(await cli('resume', ...as('ann', 'over'))).toEqual(done('resumed; it was paused since TIME by bob: another'));
  expect(await cli('reset-breaker', 'errors', ...as('ann', 'mended'))).toEqual(
    done('the breaker errors was not open: nothing changed'),
  );
  await journals[1]?.journal.append([{ at: 1, step: 'breaker_opened', breaker: 'errors', reason: '3 cancels failed' }]);
  expect(await cli('pending')).toEqual(
    done('no action waits for approval\nb: the breaker errors is open since TIME: 3 cancels failed'),
  );
  expect(await cli('reset-breaker', 'errors', ...as('ann', 'mended'))).toEqual(
    done('b: breaker errors reset; it was open since TIME: 3 cancels failed'),
  );
  expect(await cli('approve', 'none')).toEqual({
    code: 1,
    said: 'no action none waits for approval: enter its dlqId, or at least 6 characters of its id',
  });
  // A command that changes nothing writes no journal line.
  const stepsOf = async (account: string) =>
    (await cli('journal', '--json')).said
      .split('\n')
      .map(line => JSON.parse(line))
      .flatMap(line => (line.account === account ? [line.step] : []));
  await eventually(async () => {
    expect(await stepsOf('b')).toEqual(['breaker_opened', 'paused', 'paused', 'resumed', 'breaker_reset']);
    expect(await stepsOf('a')).toEqual(['paused', 'paused', 'resumed']);
  });
});

it('approve reports that no cancel is sent until the pause ends', async () => {
  const { cli, journals } = await setUp();
  const target = { account: 'a', id: '1-0', dlqId: '1-0', episode: 'e' } as never;
  const until = Date.now() + 3_600_000;
  const waiting = { step: 'awaiting_approval', rule: 'r', mode: 'approve', policy: 'p', evidence: [], until } as const;
  await journals[0]?.journal.append([{ at: Date.now(), action: 'action-a', target, ...waiting }]);
  await cli('pause', '--by', 'bob', '--reason', 'deploying');
  expect((await cli('approve', '1-0')).said.split('\n')).toEqual([
    'a: action-a is approved for the rule r; the next complete walk evaluates the callback again',
    'nothing is sent until the pause ends (by bob: deploying)',
  ]);
});

it('pause waits for a request in flight and reports it; reset-breaker reports a missing agent', async () => {
  const { cli, journals, store, stop } = await setUp();
  await stop();
  const change = (value: string | null) => store.commit('a', [{ key: 'auto-cancel/sending', value }]);
  await change(JSON.stringify({ sendBy: Date.now() + 3_600_000 }));
  const paused = cli('pause', '--by', 'ann', '--reason', 'incident');
  await eventually(async () => {
    expect((await store.scan('', BRAKE)).get(BRAKE)).toContain('incident');
  });
  await change(null);
  expect(await paused).toEqual({
    code: 0,
    said: expect.stringMatching(
      /^paused(; it was paused before.*)?\npaused; waiting at most 30 s for a cancel request that may be in flight$/,
    ),
  });
  await journals[0]?.journal.append([{ at: 1, step: 'breaker_opened', breaker: 'errors', reason: 'x' }]);
  expect(await cli('reset-breaker', 'errors', '--reason', 'fixed')).toEqual({
    code: 0,
    said: 'no agent has executed this request yet: the next agent that opens the account a executes the request if it is still valid',
  });
});

it('the brake commands work even if the configuration file is invalid YAML below the store section', async () => {
  const { cli, config } = await setUp();
  appendFileSync(config, 'alerts: { enabled: true\ntracing: {}\n');
  expect(await cli('pause', '--by', 'ann', '--reason', 'incident')).toEqual({ code: 0, said: 'paused' });
  // `journal` fails, because the unreadable part might contain accounts.
  expect(await cli('journal')).toMatchObject({ code: 2, said: expect.stringContaining('is not closed') });
});

it('the brake commands report an invalid store setting with its position in the configuration file', async () => {
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
