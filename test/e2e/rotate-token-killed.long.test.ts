import { expect, it } from 'vitest';
import { count, killAtEvery } from './killed-rotation.ts';

it('a rotation that is killed at any point of its way: the credentials are on the disk, and the next run finishes it', async () => {
  const found = await killAtEvery(1);
  // The one point at which no run can help.
  expect(count(found, 'lost')).toBe(1);
  expect(count(found, 'not sent')).toBeGreaterThan(20);
  expect(count(found, 'answered')).toBeGreaterThan(12);
  expect(count(found, 'finished')).toBeGreaterThanOrEqual(1);
});
