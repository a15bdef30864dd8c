import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { isReleased } from '../../scripts/names.ts';
import { newFolder } from '../support/folder.ts';

it('a version is released once the repository has its tag', () => {
  const cwd = newFolder();
  expect(isReleased('1.2.3', cwd)).toBe(false);
  const git = (...args: readonly string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a', ...args], { cwd });
  git('init', '--quiet');
  git('commit', '--quiet', '--allow-empty', '--message', 'release');
  git('tag', 'v1.2.30');
  expect(isReleased('1.2.3', cwd)).toBe(false);
  git('tag', 'v1.2.3');
  expect(isReleased('1.2.3', cwd)).toBe(true);
});

it('isReleased throws if git cannot read the repository', () => {
  const cwd = newFolder();
  writeFileSync(join(cwd, '.git'), '');
  expect(() => isReleased('1.2.3', cwd)).toThrow('Command failed: git tag');
});
