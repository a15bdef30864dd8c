import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { startRotation } from './rotation.ts';

/** Progress of the killed process. `lost`: the response had arrived, but no part of it was written. */
type Found = 'not sent' | 'lost' | 'answered' | 'finished';

export const count = (found: readonly Found[], what: Found) => found.filter(each => each === what).length;

/**
 * Kills the process before file operation number `at` and checks that the next run completes the rotation. Returns
 * whether the process reached that operation.
 */
async function killAt(at: number, found: Found[]): Promise<boolean> {
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
  // Apart from stored responses, only these files exist.
  expect(names().filter(name => !name.includes('.rotated-'))).toEqual([
    'password',
    'password.previous',
    'token',
    'token.rotating.json-lock',
  ]);
  found.push(wasSent ? 'answered' : 'not sent');
  return true;
}

/** Kills rotations before every `step`th file operation, from the first to the last. */
export async function killAtEvery(step: number): Promise<readonly Found[]> {
  const found: Found[] = [];
  for (let at = 1; ; at += 3 * step) {
    const went = await Promise.all([0, 1, 2].map(more => killAt(at + more * step, found)));
    if (went.includes(false)) return found;
  }
}
