import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { unlimited } from '../support/agent.ts';
import { mainFile } from '../support/bundle.ts';
import { runCli, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { requireProgram } from '../support/prometheus.ts';

/** A user other than root, if the test runs as root. */
const NOBODY = 65_534;

const UNIT = readFileSync('deploy/systemd/delivery-watch.service', 'utf8');

/** Value of `systemd-analyze security --threshold`: ten times the maximum exposure level, which is 1.5 of 10. */
const EXPOSED_AT_MOST = 15;

/** Runs systemd-analyze on a unit that need not be installed. */
function analyze(unit: string, ...how: string[]) {
  const file = join(newFolder(), 'delivery-watch.service');
  writeFileSync(file, unit.replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true'));
  const { status, stdout, stderr } = spawnSync('systemd-analyze', [...how, '--no-pager', file], { encoding: 'utf8' });
  return { status, output: stdout + stderr };
}
const harden = (unit: string) => analyze(unit, 'security', '--offline=true', `--threshold=${EXPOSED_AT_MOST}`);

describe.skipIf(!requireProgram('systemd-analyze'))('deploy/systemd/delivery-watch.service', () => {
  it('delivery-watch.service is a valid unit', () => {
    expect(analyze(UNIT, 'verify')).toEqual({ status: 0, output: '' });
    expect(analyze(UNIT.replace('ProtectHome=', 'ProtectHomes='), 'verify').output).toMatch(
      /Unknown key.*ProtectHomes/,
    );
  });

  it('delivery-watch.service has a low exposure level', () => {
    expect(harden(UNIT)).toMatchObject({ status: 0, output: expect.stringContaining('OK') });
    expect(harden(UNIT.replace('ProtectSystem=strict\n', '').replace('CapabilityBoundingSet=\n', '')).status).toBe(1);
  });
});

/** Creates the folders of the unit, for another user than root, and a running agent of this user in them. */
async function startUnit() {
  const [user, root] = [process.getuid?.() || NOBODY, newFolder()];
  const [state, credentials, node] = [join(root, 'state'), join(root, 'credentials'), join(root, 'node')];
  const token = join(credentials, 'token');
  chmodSync(root, 0o755);
  // npm installs files that every user can read.
  chmodSync(dirname(dirname(mainFile())), 0o755);
  // The checkout may be in a folder that only root can enter.
  copyFileSync(process.execPath, node);
  chmodSync(node, 0o755);
  for (const folder of [state, credentials]) mkdirSync(folder, { mode: 0o700 });
  const emulator = await emulateEmpty({ token: 'token-canary' });
  emulator.state.addDlqEntry({ messageId: 'msg_1', enteredAt: Date.now() - 60_000 });
  writeFileSync(token, 'token-canary', { mode: 0o400 });
  chmodSync(credentials, 0o500);
  if (process.getuid?.() === 0) for (const path of [state, credentials, token]) chownSync(path, user, user);
  const config = join(root, 'config.yaml');
  const accounts = [unlimited('production', emulator.url)].map(account => ({ ...account, token: { file: token } }));
  writeFileSync(config, JSON.stringify({ server: { listen: '127.0.0.1:0' }, accounts }), { mode: 0o644 });
  const [, variables = ''] = /^Environment=(.*)$/m.exec(UNIT) ?? [];
  const drop = process.getuid?.() === 0 ? ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'] : [];
  const wrap = [...drop, 'env', `--chdir=${state}`];
  const service = startCli(['serve', '--config', config], {}, [...wrap, ...variables.split(' ')], node);
  afterThisTest(async () => {
    service.kill('SIGTERM');
    await service.ended;
  });
  await service.listensAt();
  return {
    state,
    user,
    /** Runs a command in the state folder, in the environment of a shell. */
    command: (args: readonly string[]) => runCli(args, { DELIVERY_WATCH_CONFIG: config }, wrap, node),
  };
}

describe.skipIf(!requireProgram('setpriv'))('commands of the service’s user', () => {
  it('list, message and report find configuration, credential and store if the service’s user runs them outside the unit', async () => {
    const { command, state, user } = await startUnit();
    expect(await command(['list', 'dlq', '--ids'])).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(/^\S+\n$/),
    });
    expect(await command(['message', 'msg_1'])).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringContaining('In the dead-letter queue since'),
    });
    // The running agent responds, otherwise standard error reports that the accounts are read once.
    const report = await eventually(async () => {
      const result = await command(['report']);
      expect(result.code).not.toBe(3);
      return result;
    });
    expect(report).toMatchObject({ stderr: '', stdout: expect.stringContaining('1 dead letter') });
    const files = readdirSync(join(state, 'data'));
    expect(files).toContain('delivery-watch.db');
    expect(new Set(files.map(file => statSync(join(state, 'data', file)).uid))).toEqual(new Set([user]));
  });
});

describe('unit settings', () => {
  it('delivery-watch.service prevents the agent from writing code that a later start would run', () => {
    expect(UNIT).toMatch(/^ProtectSystem=strict$/m);
    expect(UNIT).not.toMatch(/CacheDirectory|NODE_COMPILE_CACHE/);
  });

  it('delivery-watch.service starts the installed command, reloads it with SIGHUP and permits V8 to compile code', () => {
    const { bin } = JSON.parse(readFileSync('package.json', 'utf8'));
    expect(Object.keys(bin)).toEqual(['delivery-watch']);
    expect(UNIT).toMatch(/^ExecStart=\/usr\/bin\/delivery-watch serve --config /m);
    expect(UNIT).toMatch(/^ExecReload=\/bin\/kill -HUP \$MAINPID$/m);
    expect(UNIT).toMatch(/^RestartPreventExitStatus=2$/m);
    expect(UNIT).toMatch(/^RestartForceExitStatus=SIGHUP$/m);
    expect(UNIT).not.toMatch(/^MemoryDenyWriteExecute=/m);
  });
});
