import { chmodSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { mayExist } from '../../src/auto-cancel/context.ts';
import { newFolder } from '../support/folder.ts';

it('the stop file is detected if its path exists', () => {
  const folder = newFolder();
  const file = join(folder, 'STOP');
  expect([mayExist(file), mayExist(join(folder, 'none', 'STOP'))]).toEqual([false, false]);
  writeFileSync(file, '');
  expect([mayExist(file), mayExist(folder)]).toEqual([true, true]);
});

it('the stop file counts as existing if its path cannot be resolved', () => {
  const folder = newFolder();
  symlinkSync('/nowhere/STOP', join(folder, 'dangling'));
  symlinkSync('loop', join(folder, 'loop'));
  writeFileSync(join(folder, 'file'), '');
  const files = ['dangling', 'loop', 'loop/STOP', 'file/STOP', 'x'.repeat(300)];
  expect(files.filter(file => !mayExist(join(folder, file)))).toEqual([]);
});

it.skipIf(process.getuid?.() === 0)('the stop file counts as existing if its folder is not searchable', () => {
  const folder = newFolder();
  chmodSync(folder, 0o000);
  const isThere = mayExist(join(folder, 'STOP'));
  chmodSync(folder, 0o700);
  expect(isThere).toBe(true);
});
