import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { type Rotation, startRotation } from './rotation.ts';

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8);

describe('unsent resets', () => {
  const refused = async (
    rotation: Rotation,
    { args = ['--yes'], env = {}, code = 1 }: { args?: string[]; env?: Record<string, string>; code?: number } = {},
  ) => {
    const result = await rotation.run(args, env);
    expect([result.code, result.stdout, rotation.resets()]).toEqual([code, '', 0]);
    expect(rotation.records()).toEqual([]);
    expect(existsSync(`${rotation.tokenFile}.rotating.json`)).toBe(false);
    return result.stderr.replaceAll(rotation.folder, '');
  };

  it('rotate-token sends nothing if it has neither a terminal nor --yes', async () => {
    expect(await refused(await startRotation(), { args: [], code: 2 })).toBe(
      'error: no terminal to ask for confirmation; --yes skips the question\n',
    );
  });

  it('rotate-token sends nothing with an incomplete configuration', async () => {
    const rotation = await startRotation({ account: { management: null } });
    expect(await refused(rotation, { code: 2 })).toBe(
      'error: acme has no management section; rotate-token needs { baseUrl, username, password } there\n',
    );
    rotation.configure({ password: { env: 'NOT_SET' } });
    expect(await refused(rotation, { code: 2 })).toBe(
      'error: the management password of acme: the environment variable NOT_SET is not set; nothing was sent\n',
    );
    rotation.configure({});
    expect(await refused(rotation, { args: ['--yes', '--account', 'b'], code: 2 })).toBe(
      'error: /config.yaml has no account b; it has acme\n',
    );
    writeFileSync(rotation.passwordFile, 'two words');
    expect(await refused(rotation, { code: 2 })).toBe(
      'error: the management password of acme: /secrets/password must contain visible ASCII characters, without spaces; nothing was sent\n',
    );
    rmSync(rotation.tokenFile);
    expect(await refused(rotation, { code: 2 })).toBe(
      '/config.yaml:1:132: accounts[0].token: /secrets/token does not exist\n',
    );
  });

  it.each([
    ['open token.rotated EDQUOT', "/secrets/token.rotated-T.json can't be written (EDQUOT)"],
    ['write token.rotated ENOSPC', "/secrets/token.rotated-T.json can't be written (ENOSPC)"],
    ['fsync token.rotated EIO', "/secrets/token.rotated-T.json can't be written (EIO)"],
    [
      'rename token EBUSY',
      "/secrets/token can't be replaced (EBUSY): its folder must be writable, and the file must not be a mount",
    ],
    ['fsync token.being ENOSPC', "/secrets/token can't be replaced (ENOSPC)"],
    ['write password ENOSPC', "/secrets/password can't be replaced (ENOSPC)"],
    ['symlink token.rotating.json EIO', "/secrets/token.rotated-T.json can't be written (EIO); nothing was sent"],
    ['open rotating.json-lock EACCES', "/secrets can't be written (EACCES); nothing was sent"],
  ])('rotate-token sends nothing if a file cannot be written: %s', async (fail, expected) => {
    const rotation = await startRotation();
    const message = await refused(rotation, { env: rotation.crash({ fail }) });
    expect(message.replace(/\d{8}T[\d.]+Z/, 'T')).toContain(expected);
    expect(message).not.toContain('    at ');
    expect(rotation.token()).toBe(rotation.first);
    expect(readFileSync(rotation.passwordFile, 'utf8')).toBe(rotation.password);
  });

  it.each([
    ['is a file', (out: string) => writeFileSync(out, 'mine')],
    ['is empty', (out: string) => writeFileSync(out, '')],
    ['is a folder', (out: string) => mkdirSync(out)],
    ['is a link to a file', (out: string, rotation: Rotation) => symlinkSync(rotation.configFile, out)],
    ['is a link to a missing file', (out: string) => symlinkSync(`${out}.missing`, out)],
    ['is a device', (out: string) => symlinkSync('/dev/stdout', out)],
  ])('rotate-token sends nothing if the output file %s', async (_name, create) => {
    const rotation = await startRotation();
    const out = join(rotation.folder, 'out.json');
    create(out, rotation);
    const before = readFileSync(rotation.configFile, 'utf8');
    expect(await refused(rotation, { args: ['--yes', '--out', out] })).toBe(
      '/out.json already exists and is never overwritten; nothing was sent\n',
    );
    expect(existsSync(`${out}.missing`)).toBe(false);
    expect(readFileSync(rotation.configFile, 'utf8')).toBe(before);
  });

  it('rotate-token sends nothing if the folder of the output file is missing', async () => {
    const rotation = await startRotation();
    expect(await refused(rotation, { args: ['--yes', '--out', join(rotation.folder, 'missing', 'out.json')] })).toBe(
      "/missing/out.json can't be written (ENOENT); nothing was sent. --out FILE names another file for the new credentials\n",
    );
  });

  it('rotate-token sends nothing while another rotate-token of the account is running', async () => {
    const rotation = await startRotation();
    rotation.fault({ kind: 'hang' });
    const first = rotation.start();
    await eventually(() => expect(existsSync(`${rotation.tokenFile}.rotating.json`)).toBe(true));
    const second = await rotation.run();
    expect([second.code, second.stderr]).toEqual([
      1,
      'another rotate-token of this account is running; nothing was sent\n',
    ]);
    first.kill('SIGKILL');
    await first.ended;
  });

  /**
   * Root ignores permissions unless it drops this capability. The process still runs as root, because another user
   * might not reach this folder.
   */
  const isRoot = process.getuid?.() === 0;
  const bound = isRoot ? ['setpriv', '--bounding-set', '-dac_override'] : [];

  it.for([
    ['files', (secrets: string) => [secrets]],
    [
      'links, as in Kubernetes',
      (secrets: string) => {
        const [data, version] = [join(secrets, '..data'), join(secrets, '..2026_11_28')];
        mkdirSync(version);
        symlinkSync('..2026_11_28', data);
        for (const name of ['token', 'password']) {
          renameSync(join(secrets, name), join(version, name));
          symlinkSync(join('..data', name), join(secrets, name));
        }
        return [version, secrets];
      },
    ],
  ] as const)(
    'rotate-token needs --out for %s in a read-only folder, and then leaves their replacement to the user',
    async ([, arrange], { skip }) => {
      const [probe = 'true', ...flags] = bound;
      if (isRoot && spawnSync(probe, [...flags, 'true']).status !== 0)
        skip('root ignores permissions, and setpriv cannot drop this capability');
      const rotation = await startRotation();
      const { folder, secrets, tokenFile, passwordFile } = rotation;
      const outside = join(folder, 'outside');
      mkdirSync(outside);
      for (const file of [tokenFile, passwordFile]) chmodSync(file, 0o644);
      const folders = arrange(secrets);
      for (const each of folders) chmodSync(each, 0o555);
      // Restore the permissions, because the folder could not be deleted otherwise.
      afterThisTest(async () => {
        for (const each of folders.reverse()) chmodSync(each, 0o755);
      });
      async function run(more: string[]) {
        const { code, stdout, stderr } = await rotation.run(['--yes', ...more], {}, bound);
        return { code, out: stdout + stderr };
      }
      const without = await run([]);
      expect([without.code, rotation.resets()]).toEqual([1, 0]);
      expect(without.out).toContain(`${folders[0]} can't be written (EACCES); nothing was sent. Use --out FILE`);

      const out = join(outside, 'new.json');
      const { code, out: output } = await run(['--out', out]);
      expect([code, rotation.resets(), rotation.token()]).toEqual([0, 1, rotation.first]);
      expect(output).toContain(
        `Put the value of "token" in ${out} into ${tokenFile}, which can't be replaced (EACCES).`,
      );
      expect([JSON.parse(readFileSync(out, 'utf8')).token, mode(out)]).toEqual([rotation.emulator.token, '600']);
      expect(existsSync(join(outside, 'acme.rotating.json'))).toBe(false);
    },
  );
});
