import { execFileSync } from 'node:child_process';
import { statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { whyNotRead } from '../../src/kit/regular-file.ts';
import { newFolder } from '../support/folder.ts';

it('whyNotRead rejects pipes, devices, folders and long files, also behind links', () => {
  const folder = newFolder();
  const [pipe, file, link, toZero] = ['pipe', 'file', 'link', 'zero'].map(name => join(folder, name)) as [
    string,
    string,
    string,
    string,
  ];
  execFileSync('sh', ['-c', `mkfifo ${pipe}`]);
  writeFileSync(file, 'x'.repeat(10));
  symlinkSync(file, link);
  symlinkSync('/dev/zero', toZero);
  for (const special of [pipe, '/dev/zero', '/dev/null', folder, toZero]) {
    expect([special, whyNotRead(statSync(special), 10)]).toEqual([special, 'it is not a regular file']);
  }
  expect([file, link].map(path => whyNotRead(statSync(path), 10))).toEqual([undefined, undefined]);
  expect(whyNotRead(statSync(link), 9)).toBe('it has more than 9 bytes');
});
