import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { count, killAtEvery } from './killed-rotation.ts';
import { print, startRotation } from './rotation.ts';

describe('rotations killed with SIGKILL', () => {
  // rotate-token-killed.long.test.ts covers every operation.
  it('a rotation killed at every fifth file operation keeps the credentials on disk, and the next run finishes it', async () => {
    const found = await killAtEvery(5);
    expect(count(found, 'lost')).toBeLessThanOrEqual(1);
    expect(count(found, 'not sent')).toBeGreaterThan(3);
    expect(count(found, 'answered')).toBeGreaterThan(1);
  });

  it('the next run reports the outcome of a rotation killed while the response is in flight', async () => {
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

  it('a rotation killed in the middle of the response keeps the received part', async () => {
    const rotation = await startRotation();
    rotation.fault({ kind: 'drip', dripMs: 20 });
    const command = rotation.start();
    const received = () => readFileSync(rotation.records()[0] ?? '', 'utf8').trimEnd();
    await eventually(() => expect(received().length).toBeGreaterThan(20));
    command.kill('SIGKILL');
    await command.ended;
    const before = received();
    rotation.emulator.faults.clear();
    const { code, stderr } = await rotation.run();
    expect([code, received()]).toEqual([1, before]);
    expect(stderr).toContain(`The received part of the response is in ${rotation.records()[0]}`);
  });
});
