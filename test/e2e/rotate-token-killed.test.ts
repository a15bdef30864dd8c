import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { print, startRotation } from './rotation.ts';

describe('killed with SIGKILL', () => {
  it('at any point of its way: the credentials are on the disk, and the next run finishes it', async () => {
    const found: string[] = [];
    /** Kills before file operation number `at`; says whether there was one. */
    async function killAt(at: number): Promise<boolean> {
      const rotation = await startRotation();
      const { emulator, tokenFile, secrets, names } = rotation;
      const killed = await rotation.run(['--yes'], rotation.crash({ at }));
      if (killed.code === 0) return false;
      expect(killed.code).toBe('SIGKILL');
      const wasSent = rotation.resets() === 1;
      const isOnDisk = names().some(name => readFileSync(join(secrets, name)).includes(emulator.token));
      const isUnfinished = existsSync(`${tokenFile}.rotating.json`);
      if (wasSent && !isUnfinished) {
        expect(rotation.token()).toBe(emulator.token);
        found.push('finished');
        return true;
      }
      const next = await rotation.run();
      expect(rotation.resets(), `at ${at}`).toBe(1);
      if (wasSent && !isOnDisk) {
        expect(next.code).toBe(1);
        expect(next.stderr).toContain('The old token is revoked: the service no longer accepts');
        expect(next.stderr).toContain('To recover,');
        found.push('lost');
        return true;
      }
      expect([next.code, rotation.token()], `at ${at}: ${next.stderr}`).toEqual([0, emulator.token]);
      expect(readFileSync(rotation.passwordFile, 'utf8')).toBe(emulator.credentials.password);
      expect(next.stdout.includes('is unfinished.')).toBe(isUnfinished);
      // Nothing but what belongs there, and one record.
      expect(names().filter(name => !name.includes('.rotated-'))).toEqual([
        'password',
        'password.previous',
        'token',
        'token.rotating.json-lock',
      ]);
      found.push(wasSent ? 'answered' : 'not sent');
      return true;
    }
    for (let at = 1; ; at += 3) {
      const went = await Promise.all([killAt(at), killAt(at + 1), killAt(at + 2)]);
      if (went.includes(false)) break;
    }
    const count = (what: string) => found.filter(each => each === what).length;
    // The one point at which nobody can help: the answer is here, and its first byte is not yet written.
    expect(count('lost')).toBe(1);
    expect(count('not sent')).toBeGreaterThan(20);
    expect(count('answered')).toBeGreaterThan(12);
    expect(count('finished')).toBeGreaterThanOrEqual(1);
  });

  it('while the answer is under way: the next run tells what became of it', async () => {
    const rotation = await startRotation();
    rotation.fault({ kind: 'hang', acts: true });
    const command = rotation.start();
    await eventually(() => expect(rotation.resets()).toBe(1));
    command.kill('SIGKILL');
    await command.ended;
    rotation.emulator.faults.clear();
    const check = await rotation.run(['--check']);
    expect([check.code, check.stdout]).toEqual([
      1,
      expect.stringMatching(/rejects it\nunfinished {3}one that began at/),
    ]);
    const next = await rotation.run();
    expect([next.code, rotation.resets()]).toEqual([1, 1]);
    expect(next.stderr).toContain(`The old token is revoked: the service no longer accepts ${print(rotation.first)}`);
  });

  it('in the middle of the answer: what came is kept', async () => {
    const rotation = await startRotation();
    rotation.fault({ kind: 'drip', dripMs: 20 });
    const command = rotation.start();
    const came = () => readFileSync(rotation.records()[0] ?? '', 'utf8').trimEnd();
    await eventually(() => expect(came().length).toBeGreaterThan(20));
    command.kill('SIGKILL');
    await command.ended;
    const begun = came();
    rotation.emulator.faults.clear();
    const { code, stderr } = await rotation.run();
    expect([code, came()]).toEqual([1, begun]);
    expect(stderr).toContain(`The received part of the response is in ${rotation.records()[0]}`);
  });
});
