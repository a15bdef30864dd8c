import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { count, killAtEvery } from './killed-rotation.ts';
import { print, startRotation } from './rotation.ts';

describe('killed with SIGKILL', () => {
  // At every one: rotate-token-killed.long.test.ts.
  it('at every fifth point of its way: the credentials are on the disk, and the next run finishes it', async () => {
    const found = await killAtEvery(5);
    expect(count(found, 'lost')).toBeLessThanOrEqual(1);
    expect(count(found, 'not sent')).toBeGreaterThan(3);
    expect(count(found, 'answered')).toBeGreaterThan(1);
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
