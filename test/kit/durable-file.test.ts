import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
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
import { removeFile, replaceFile, reserveFile } from '../../src/kit/durable-file.ts';
import { afterThisTest } from '../support/client.ts';

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'durable-'));
  afterThisTest(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8);

describe('a file that is replaced', () => {
  it('has the new content and the old mode, and is another file', () => {
    const file = join(newFolder(), 'f');
    writeFileSync(file, 'old');
    chmodSync(file, 0o644);
    const { ino } = statSync(file);
    replaceFile(file, 'new');
    expect([readFileSync(file, 'utf8'), mode(file)]).toEqual(['new', '644']);
    expect(statSync(file).ino).not.toBe(ino);
  });

  it('is for its owner alone where there was none, unless said otherwise', () => {
    const folder = newFolder();
    replaceFile(join(folder, 'a'), Buffer.from('x'));
    replaceFile(join(folder, 'b'), 'x', 0o644);
    expect([mode(join(folder, 'a')), mode(join(folder, 'b'))]).toEqual(['600', '644']);
  });

  it.runIf(process.getuid?.() === 0)('keeps its owner', () => {
    const file = join(newFolder(), 'f');
    writeFileSync(file, 'old');
    chownSync(file, 1234, 4321);
    replaceFile(file, 'new');
    expect([statSync(file).uid, statSync(file).gid]).toEqual([1234, 4321]);
  });

  it('is the one behind a link, which stays', () => {
    const folder = newFolder();
    mkdirSync(join(folder, 'behind'));
    const [file, link] = [join(folder, 'behind', 'f'), join(folder, 'link')];
    writeFileSync(file, 'old');
    symlinkSync(file, link);
    replaceFile(link, 'new');
    expect([readFileSync(file, 'utf8'), readlinkSync(link)]).toEqual(['new', file]);
  });

  it('leaves nothing beside it, neither of itself nor of one that was killed', () => {
    const folder = newFolder();
    const file = join(folder, 'f');
    writeFileSync(`${file}.being-replaced`, 'half');
    replaceFile(file, 'new');
    mkdirSync(join(folder, 'd'));
    expect(() => replaceFile(join(folder, 'd'), 'x')).toThrow('EISDIR');
    expect(readdirSync(folder).sort()).toEqual(['d', 'f']);
  });
});

describe('a file that is reserved', () => {
  it('holds blanks, then what is written, then that alone', () => {
    const path = join(newFolder(), 'f');
    const file = reserveFile(path, 100);
    expect([readFileSync(path, 'utf8'), mode(path)]).toEqual([' '.repeat(100), '600']);
    file.append(Buffer.from('one'));
    file.append(Buffer.from('two'));
    expect(readFileSync(path, 'utf8')).toBe(`onetwo${' '.repeat(94)}`);
    file.complete();
    expect(readFileSync(path, 'utf8')).toBe('onetwo');
  });

  it('may grow beyond its room, and go away', () => {
    const path = join(newFolder(), 'f');
    const file = reserveFile(path, 2);
    file.append(Buffer.from('longer'));
    expect(readFileSync(path, 'utf8')).toBe('longer');
    file.discard();
    expect(existsSync(path)).toBe(false);
    removeFile(path);
  });

  it('is never one that is there', () => {
    const path = join(newFolder(), 'f');
    writeFileSync(path, 'mine');
    expect(() => reserveFile(path, 10)).toThrow('EEXIST');
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });
});
