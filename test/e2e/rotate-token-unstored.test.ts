import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { runOnTerminal, startRotation } from './rotation.ts';

/** Returns the files below `folder` that contain `text`. */
const filesWith = (folder: string, text: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter(file => readFileSync(file).includes(text));

describe('responses that cannot be stored', () => {
  it.each([
    ['the disk is full', 'write token.rotated ENOSPC 2', 'ENOSPC'],
    ['the quota is exceeded', 'write token.rotated EDQUOT 2', 'EDQUOT'],
    ['the disk fails', 'fsync token.rotated EIO 3', 'EIO'],
  ])(
    'rotate-token shows the credentials on the terminal alone, and replaces the secrets, if %s',
    async (_name, fail, code) => {
      const rotation = await startRotation();
      const { emulator, passwordFile, tokenFile } = rotation;
      const result = await runOnTerminal(rotation.configFile, 'acme', rotation.crash({ fail }));
      const { token, password } = emulator.credentials;
      expect([result.code, rotation.resets(), rotation.token()]).toEqual([1, 1, token]);
      const [, shown = ''] = /new credentials:\s+(\{.*\})/.exec(result.terminal) ?? [];
      expect(JSON.parse(shown)).toMatchObject({ token, password });
      const [record = ''] = rotation.records();
      expect(result.terminal).toContain(`${record} can't be written (${code}).`);
      expect(result.stdout).toContain(
        `${record} does not contain the response (${code}): save the credentials above now.`,
      );
      expect(result.stdout).not.toContain('The complete response');
      expect(result.stdout).toContain('The service accepts it.');
      expect(result.stderr).toBe(`The token was reset, but ${record} can't be written (${code}).\n`);
      const stored = code === 'EIO' ? [record] : [];
      expect(filesWith(rotation.folder, token).sort()).toEqual([tokenFile, ...stored].sort());
      expect(filesWith(rotation.folder, password).sort()).toEqual([passwordFile, ...stored].sort());
      // The reset is finished.
      expect(rotation.names()).not.toContain('token.rotating.json');
    },
  );

  it('rotate-token writes the credentials to standard error if there is no terminal', async () => {
    const rotation = await startRotation();
    const env = rotation.crash({ fail: 'write token.rotated ENOSPC 2' });
    const { code, stdout, stderr } = await rotation.run(['--yes'], env, ['setsid', '--wait']);
    expect([code, rotation.token()]).toEqual([1, rotation.emulator.token]);
    expect(stderr).toContain(`"token":"${rotation.emulator.token}"`);
    expect(stdout).not.toContain(rotation.emulator.token);
  });

  it('rotate-token shows the received part of an incomplete response that cannot be stored', async () => {
    const rotation = await startRotation();
    rotation.fault({ kind: 'truncate' });
    const env = rotation.crash({ fail: 'write token.rotated ENOSPC 2' });
    const { code, stderr } = await rotation.run(['--yes'], env, ['setsid', '--wait']);
    expect([code, rotation.resets()]).toEqual([1, 1]);
    expect(stderr).toContain('{"customer_id":"owner@example.com"');
    expect(stderr).toContain('The old token is revoked');
    expect(stderr).not.toContain('The received part of the response is in');
  });

  it('rotate-token shows the credentials if the folder of the response file is removed', async () => {
    const rotation = await startRotation();
    const outside = newFolder();
    rotation.fault({ kind: 'drip', dripMs: 1 });
    const command = rotation.start(['--yes', '--out', join(outside, 'new.json')], {}, ['setsid', '--wait']);
    await eventually(() => expect(rotation.resets()).toBe(1));
    rmSync(outside, { recursive: true });
    expect(await command.ended).toBe(1);
    expect(command.stderr()).toContain(`"token":"${rotation.emulator.token}"`);
    expect(rotation.token()).toBe(rotation.emulator.token);
  });

  it('rotate-token shows the credentials and the remaining steps if the folder of the secrets is removed', async () => {
    const rotation = await startRotation();
    rotation.fault({ kind: 'drip', dripMs: 1 });
    const command = rotation.start(['--yes'], {}, ['setsid', '--wait']);
    await eventually(() => expect(rotation.resets()).toBe(1));
    rmSync(rotation.secrets, { recursive: true });
    expect(await command.ended).toBe(1);
    expect(command.stderr()).toContain(`"token":"${rotation.emulator.token}"`);
    expect(command.stdout()).toContain(
      `Put the value of "token" in the response above into ${rotation.tokenFile}, which can't be replaced (ENOENT).`,
    );
  });

  it.runIf(process.getuid?.() === 0)(
    'rotate-token shows the credentials if a real disk becomes full',
    async ({ skip }) => {
      const disk = newFolder();
      if (spawnSync('sh', ['-c', `mount -t tmpfs -o size=256k tmpfs ${disk}`]).status !== 0)
        skip('mount is not permitted');
      afterThisTest(async () => void spawnSync('sh', ['-c', `umount -l ${disk}`]));
      const rotation = await startRotation();
      rotation.fault({ latencyMs: 2000 });
      const command = rotation.start(['--yes', '--out', join(disk, 'new.json')], {}, ['setsid', '--wait']);
      await eventually(() => expect(rotation.names()).toContain('token.rotating.json'));
      for (let i = 0; statfsSync(disk).bavail > 0; i++) writeFileSync(join(disk, `${i}`), Buffer.alloc(4096));
      expect(await command.ended).toBe(1);
      const { token } = rotation.emulator;
      expect(command.stderr()).toContain("new.json can't be written (ENOSPC)");
      expect(command.stderr()).toContain(`"token":"${token}"`);
      expect([rotation.resets(), rotation.token(), filesWith(disk, token)]).toEqual([1, token, []]);
    },
  );

  it('rotate-token sends nothing if the file size limit is too low for a response', async () => {
    const rotation = await startRotation();
    const { code, stderr } = await rotation.run(['--yes'], {}, ['sh', '-c', 'ulimit -f 8; exec "$@"', 'sh']);
    expect([code, rotation.resets(), rotation.names().includes('token.rotating.json')]).toEqual([1, 0, false]);
    expect(stderr).toContain("can't be written (EFBIG); nothing was sent");
  });
});

describe('standard output that cannot be written', () => {
  it.each([
    ['is full', 'exec "$@" >/dev/full', 1],
    ['is closed', 'exec "$@" >&-', 0],
    ['has no reader', '("$@"; echo $? >"$CODE") | true; exit "$(cat "$CODE")"', 0],
  ])('rotate-token stores and replaces the credentials if standard output %s', async (_name, script, expected) => {
    const rotation = await startRotation();
    const env = { CODE: join(rotation.folder, 'code') };
    // An unfinished reset, about which there is something to print before the next request.
    rotation.fault({ kind: 'hang' });
    const killed = rotation.start();
    await eventually(() => expect(rotation.names()).toContain('token.rotating.json'));
    killed.kill('SIGKILL');
    await killed.ended;
    rotation.fault({ kind: 'drip', dripMs: 1 });
    const { code } = await rotation.run(['--yes'], env, ['sh', '-c', script, 'sh']);
    expect([code, rotation.resets(), rotation.token()]).toEqual([expected, 1, rotation.emulator.token]);
    expect(filesWith(rotation.secrets, rotation.emulator.credentials.password)).toHaveLength(2);
    expect(rotation.names()).not.toContain('token.rotating.json');
  });
});

describe('checks before a reset', () => {
  it.each([
    ['503', { kind: 'status', status: 503 }, 'status 503'],
    ['404', { kind: 'status', status: 404 }, 'status 404'],
    ['429', { kind: 'status', status: 429 }, 'status 429'],
    ['a redirect', { kind: 'status', status: 302 }, 'status 302'],
    ['an HTML page', { kind: 'html' }, 'JSON'],
    ['a closed connection', { kind: 'reset' }, ''],
    ['no response', { kind: 'hang' }, 'no response in time'],
  ] as const)('rotate-token sends nothing if the check of the current token gets %s', async (_name, fault, cause) => {
    const rotation = await startRotation({ account: { upstream: { timeout: '1500ms' } } });
    rotation.emulator.faults.replace([{ endpoint: 'GET /v2/dlq', ...fault }]);
    const { code, stdout, stderr } = await rotation.run();
    expect([code, stdout, rotation.resets(), rotation.token()]).toEqual([1, '', 0, rotation.first]);
    expect(stderr).toMatch(
      /^The current token could not be checked \(GET \/v2\/dlq: .*\); nothing was sent\. Run this/,
    );
    expect(stderr).toContain(cause);
    expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
    rotation.emulator.faults.clear();
    expect([(await rotation.run()).code, rotation.resets()]).toEqual([0, 1]);
  });
});
