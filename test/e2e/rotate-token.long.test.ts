import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mainFile } from '../support/bundle.ts';
import { eventually } from '../support/eventually.ts';
import { print, startRotation } from './rotation.ts';

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8);

describe('rotate-token', () => {
  it('rotate-token stores the response, replaces token and password, and prints only fingerprints', async () => {
    const rotation = await startRotation();
    const { tokenFile, passwordFile, secrets, first, password, emulator } = rotation;
    const trace = join(rotation.folder, 'trace');
    const { code, stdout, stderr } = await rotation.run(['--yes'], rotation.crash({ trace }));
    expect([code, stderr, rotation.resets()]).toEqual([0, '', 1]);

    const [record = '', ...others] = rotation.records();
    expect(others).toEqual([]);
    expect(JSON.parse(readFileSync(record, 'utf8'))).toMatchObject({
      token: emulator.token,
      password: emulator.credentials.password,
    });
    expect(record).toMatch(/token\.rotated-\d{8}T\d{6}\.\d{3}Z\.json$/);
    expect([mode(record), mode(tokenFile)]).toEqual(['600', '640']);
    // The trailing newline is preserved.
    expect(readFileSync(tokenFile, 'utf8')).toBe(`${emulator.token}\n`);
    expect(readFileSync(passwordFile, 'utf8')).toBe(emulator.credentials.password);
    expect(readFileSync(`${passwordFile}.previous`, 'utf8')).toBe(`${password}\n`);
    expect(rotation.names()).toEqual([
      'password',
      'password.previous',
      'token',
      record.slice(secrets.length + 1),
      'token.rotating.json-lock',
    ]);

    expect(stdout).toContain(`it is now ${print(emulator.token)}, it was ${print(first)}.`);
    expect(stdout).toContain(record);
    expect(stdout).toContain('The service accepts it.');
    for (const secret of [first, password, emulator.token, emulator.credentials.password]) {
      expect(stdout).not.toContain(secret);
    }
    // Order of file operations: test for space, mark, response, token.
    const name = record.slice(secrets.length + 1);
    const steps = readFileSync(trace, 'utf8').trimEnd().split('\n').join(', ').replaceAll(name, 'RECORD');
    expect(steps).toMatch(
      /open RECORD, write RECORD, fsync RECORD, truncate RECORD, fsync RECORD, fsync , symlink token\.rotating\.json, fsync , write RECORD, fsync RECORD, open token\.being-replaced, .*rename token, fsync , .*rename password, fsync , remove token\.rotating\.json, fsync$/,
    );
  });

  it.each([
    ['/qstash/user/rotatetoken', true],
    ['/v2/qstash/rotate-token/ID', false],
  ])('rotate-token resets the token at the configured path: %s', async (path, hasPassword) => {
    const rotation = await startRotation();
    const { emulator, first } = rotation;
    const rotateToken = path.replace('ID', emulator.credentials.accountId);
    rotation.configure({ account: { paths: { rotateToken } } });
    const { code, stdout, stderr } = await rotation.run();
    expect([code, stderr, emulator.state.calls()[`POST ${path.replace('ID', '{id}')}`]]).toEqual([0, '', 1]);
    expect(emulator.token).not.toBe(first);
    expect(readFileSync(rotation.tokenFile, 'utf8')).toBe(`${emulator.token}\n`);
    expect(stdout.includes('The new password is in')).toBe(hasPassword);
    expect(mode(rotation.records()[0] ?? '')).toBe('600');
  });

  it('rotate-token --check reports the token, its age and whether it works, without resetting it', async () => {
    const rotation = await startRotation();
    const before = await rotation.run(['--check']);
    expect(before.code).toBe(0);
    expect(before.stdout).toContain(`token        ${print(rotation.first)}, in ${rotation.tokenFile}\n`);
    expect(before.stdout).toMatch(/age {10}[\d.]+ m?s, since \S+Z, when \S+token was last written\n/);
    expect(before.stdout).toContain('the service  accepts it\nunfinished   none\n');
    expect([rotation.resets(), rotation.names()]).toEqual([0, ['password', 'token']]);

    await rotation.run();
    // No agent has created the store, which would keep the time of the reset.
    expect((await rotation.run(['--check'])).stdout).toMatch(/age .*, when \S+token was last written\n/);
    writeFileSync(rotation.tokenFile, 'another');
    const refused = await rotation.run(['--check']);
    expect([refused.code, rotation.resets()]).toEqual([1, 1]);
    expect(refused.stdout).toContain('the service  rejects it');
  });

  it('rotate-token names the environment variables to set, and leaves the response in the working folder', async () => {
    const rotation = await startRotation({ token: { env: 'THE_TOKEN' }, password: { env: 'THE_PASSWORD' } });
    const { folder, first, password, emulator } = rotation;
    const args = ['rotate-token', '--config', rotation.configFile, '--account', 'acme', '--yes'];
    const child = spawn(process.execPath, [resolve(mainFile()), ...args], {
      cwd: folder,
      env: { THE_TOKEN: first, THE_PASSWORD: password },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let out = '';
    child.stdout.on('data', chunk => {
      out += chunk;
    });
    expect(await once(child, 'close')).toEqual([0, null]);
    const [, record = ''] = /Set the environment variable THE_TOKEN to the value of "token" in (\S+),/.exec(out) ?? [];
    expect(record.startsWith(join(folder, 'acme.rotated-'))).toBe(true);
    expect(out).toContain(`Set the environment variable THE_PASSWORD to the value of "password" in ${record},`);
    expect(JSON.parse(readFileSync(record, 'utf8')).token).toBe(emulator.token);
    expect(out).not.toContain(emulator.token);
    expect(existsSync(join(folder, 'acme.rotating.json'))).toBe(false);
  });

  it('rotate-token warns about the action token, which it does not replace', async () => {
    const rotation = await startRotation({ account: { actionToken: { env: 'ACTION' } } });
    const { code, stdout } = await rotation.run(['--yes'], { ACTION: 'a' });
    expect(code).toBe(0);
    expect(stdout).toContain(
      `Perhaps the action token is also revoked: put the value of "token" in ${rotation.records()[0]} into the environment variable ACTION.`,
    );
  });

  it('rotate-token replaces the target of a symbolic link, and reports this', async () => {
    const rotation = await startRotation();
    const real = join(rotation.folder, 'real');
    renameSync(rotation.tokenFile, real);
    symlinkSync(real, rotation.tokenFile);
    const { code, stdout } = await rotation.run();
    expect(code).toBe(0);
    expect(stdout).toContain(`${rotation.tokenFile} (a link to ${real}, which is replaced)`);
    expect(readFileSync(real, 'utf8')).toBe(`${rotation.emulator.token}\n`);
    expect(rotation.token()).toBe(rotation.emulator.token);
  });

  it('rotate-token does not call a plain file below a linked folder a link', async () => {
    const rotation = await startRotation();
    const linked = join(rotation.folder, 'linked');
    symlinkSync(rotation.secrets, linked);
    rotation.configure({ token: { file: join(linked, 'token') } });
    const { code, stdout } = await rotation.run();
    expect(code).toBe(0);
    expect(stdout).toContain(`The new token is in ${join(linked, 'token')}; running agents`);
    expect(stdout).not.toContain('a link');
    const [, record = ''] = /credential, is in (\S+),/.exec(stdout) ?? [];
    expect(JSON.parse(readFileSync(record, 'utf8')).token).toBe(rotation.emulator.token);
  });

  it('rotate-token waits for a slow response despite SIGHUP, SIGINT and SIGTERM', async () => {
    const rotation = await startRotation();
    rotation.fault({ kind: 'drip', dripMs: 1 });
    const command = rotation.start();
    await eventually(() => expect(rotation.resets()).toBe(1));
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) command.kill(signal);
    expect(await command.ended).toBe(0);
    expect(rotation.token()).toBe(rotation.emulator.token);
  });

  // script(1), which provides the terminal, is in one of Debian's essential packages.
  it('rotate-token asks for confirmation on a terminal, and proceeds only after y', async () => {
    const rotation = await startRotation();
    const command = [
      process.execPath,
      mainFile(),
      'rotate-token',
      '--config',
      rotation.configFile,
      '--account',
      'acme',
    ];
    const answer = (text: string) => {
      const child = spawn('script', ['-qec', command.join(' '), '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] });
      let out = '';
      child.stdout.on('data', chunk => {
        const wasPrompted = out.includes('[y/N]');
        out += chunk;
        if (!wasPrompted && out.includes('[y/N]')) child.stdin.write(text);
      });
      return once(child, 'close').then(([code]) => ({ code, out }));
    };
    for (const no of ['n\r', '\r', '\u0004', '\u0003']) {
      const { code, out } = await answer(no);
      expect([code, rotation.resets()]).toEqual([1, 0]);
      expect(out).toContain(
        `Reset the token of acme at ${rotation.emulator.url}? The current one, ${print(rotation.first)} in `,
      );
      expect(out).toContain('Not confirmed; nothing was sent.');
    }
    expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
    expect((await answer('y\r')).code).toBe(0);
    expect(rotation.resets()).toBe(1);
  });
});
