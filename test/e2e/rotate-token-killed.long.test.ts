import { expect, it } from 'vitest';
import { count, killAtEvery } from './killed-rotation.ts';

it('a rotation killed at any file operation keeps the credentials on disk, and the next run finishes it', async () => {
  const found = await killAtEvery(1);
  // There is only one point from which no later run can recover.
  expect(count(found, 'lost')).toBe(1);
  expect(count(found, 'not sent')).toBeGreaterThan(15);
  expect(count(found, 'answered')).toBeGreaterThan(12);
  expect(count(found, 'finished')).toBeGreaterThanOrEqual(1);
});
