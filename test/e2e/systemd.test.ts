import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { newFolder } from '../support/folder.ts';
import { requireProgram } from '../support/prometheus.ts';

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
