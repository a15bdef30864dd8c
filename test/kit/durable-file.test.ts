import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { behindLinks, createAppendFile, mayBePlanted, removeFile, replaceFile } from '../../src/kit/durable-file.ts';
import { afterThisTest } from '../support/client.ts';

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'durable-'));
  afterThisTest(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8);

describe('replaceFile', () => {
  it('replaceFile creates a new inode with the new content and the mode of the old file', () => {
    const file = join(newFolder(), 'f');
    writeFileSync(file, 'old');
    chmodSync(file, 0o644);
    const { ino } = statSync(file);
    replaceFile(file, 'new');
    expect([readFileSync(file, 'utf8'), mode(file)]).toEqual(['new', '644']);
    expect(statSync(file).ino).not.toBe(ino);
  });

  it('replaceFile creates a file that only its owner can read', () => {
    const file = join(newFolder(), 'a');
    replaceFile(file, 'x');
    expect(mode(file)).toBe('600');
  });

  it.runIf(process.getuid?.() === 0)('replaceFile keeps the owner of the file', () => {
    const file = join(newFolder(), 'f');
    writeFileSync(file, 'old');
    chownSync(file, 1234, 4321);
    replaceFile(file, 'new');
    expect([statSync(file).uid, statSync(file).gid]).toEqual([1234, 4321]);
  });

  it('replaceFile replaces the target of a symbolic link and keeps the link', () => {
    const folder = newFolder();
    mkdirSync(join(folder, 'behind'));
    const [file, link] = [join(folder, 'behind', 'f'), join(folder, 'link')];
    writeFileSync(file, 'old');
    symlinkSync(file, link);
    replaceFile(link, 'new');
    expect([readFileSync(file, 'utf8'), readlinkSync(link)]).toEqual(['new', file]);
  });

  it('replaceFile leaves no temporary files and removes the files of killed processes', () => {
    const folder = newFolder();
    const file = join(folder, 'f');
    writeFileSync(`${file}.being-replaced`, 'half');
    replaceFile(file, 'new');
    mkdirSync(join(folder, 'd'));
    expect(() => replaceFile(join(folder, 'd'), 'x')).toThrow('EISDIR');
    expect(readdirSync(folder).sort()).toEqual(['d', 'f']);
  });
});

const isRoot = process.getuid?.() === 0;
if (!isRoot) process.stderr.write('skipped: files of another user, which only root can make\n');

describe.runIf(isRoot)('files of other users in shared folders', () => {
  function sharedFolder(): string {
    const folder = newFolder();
    chmodSync(folder, 0o1777);
    return folder;
  }
  const owner = (file: string) => {
    const { uid, gid } = lstatSync(file);
    return [uid, gid];
  };

  it('replaceFile does not keep the owner and mode of a file that belongs to another user', () => {
    const file = join(sharedFolder(), 'f');
    writeFileSync(file, 'planted');
    chownSync(file, 4321, 4321);
    chmodSync(file, 0o666);
    expect(mayBePlanted(file)).toBe(true);
    const theirs = openSync(file, 'r');
    replaceFile(file, 'secret');
    expect([readFileSync(file, 'utf8'), mode(file), owner(file)]).toEqual(['secret', '600', [0, 0]]);
    // A process that has the planted file open keeps reading the old content.
    expect(readFileSync(theirs, 'utf8')).toBe('planted');
    closeSync(theirs);
  });

  it('replaceFile does not follow a symbolic link of another user', () => {
    const folder = sharedFolder();
    const [victim, link] = [join(newFolder(), 'victim'), join(folder, 'link')];
    writeFileSync(victim, 'mine');
    symlinkSync(victim, link);
    lchownSync(link, 4321, 4321);
    expect(() => replaceFile(link, 'secret')).toThrow('it is a link owned by another user');
    expect(() => behindLinks(link)).toThrow('it is a link owned by another user');
    expect(() => createAppendFile(link, 10)).toThrow('EEXIST');
    expect(readFileSync(victim, 'utf8')).toBe('mine');
    rmSync(link);
    symlinkSync(victim, link);
    replaceFile(link, 'new');
    expect(readFileSync(victim, 'utf8')).toBe('new');
  });

  it('replaceFile trusts a file of another user in a folder that belongs to that user or that only root can write to', () => {
    const folder = newFolder();
    const file = join(folder, 'f');
    writeFileSync(file, 'old');
    chownSync(file, 1234, 4321);
    expect(mayBePlanted(file)).toBe(false);
    chmodSync(folder, 0o777);
    expect(mayBePlanted(file)).toBe(true);
    chownSync(folder, 1234, 4321);
    expect(mayBePlanted(file)).toBe(false);
    replaceFile(file, 'new');
    expect(owner(file)).toEqual([1234, 4321]);
  });
});

describe('createAppendFile', () => {
  it('createAppendFile creates an empty private file, and appends to it', () => {
    const path = join(newFolder(), 'f');
    const file = createAppendFile(path, 100);
    expect([readFileSync(path, 'utf8'), mode(path)]).toEqual(['', '600']);
    file.append(Buffer.from('one'));
    expect(readFileSync(path, 'utf8')).toBe('one');
    file.append(Buffer.from('two'));
    file.close();
    expect(readFileSync(path, 'utf8')).toBe('onetwo');
    removeFile(path);
    expect(existsSync(path)).toBe(false);
    removeFile(path);
  });

  it('createAppendFile rejects an existing file, a folder and a link', () => {
    const folder = newFolder();
    const path = join(folder, 'f');
    writeFileSync(path, 'mine');
    symlinkSync(join(folder, 'missing'), join(folder, 'link'));
    for (const existing of [path, folder, join(folder, 'link')])
      expect(() => createAppendFile(existing, 10)).toThrow('EEXIST');
    expect(readFileSync(path, 'utf8')).toBe('mine');
    expect(existsSync(join(folder, 'missing'))).toBe(false);
  });
});
