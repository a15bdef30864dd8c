import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mainFile } from '../support/bundle.ts';

/**
 * Finds a Node.js older than version 24 in PATH or /usr/bin. Returns its path and version. A machine without one is not an
 * error: CI has only Node.js 24.
 */
function findOldNode(): { readonly file: string; readonly version: string } | undefined {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/bin']) {
    const file = join(folder, 'node');
    try {
      accessSync(file, constants.X_OK);
      const version = execFileSync(file, ['-p', 'process.versions.node'], { encoding: 'utf8' }).trim();
      if (Number.parseInt(version, 10) < 24) return { file, version };
    } catch {}
  }
  process.stderr.write('skipped: tests that need Node.js below 24, which is not installed\n');
  return undefined;
}

const run = (file: string, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  return { status, stdout, stderr };
};
const refusal = (version: string) => ({
  status: 2,
  stdout: '',
  stderr: `delivery-watch needs Node.js 24.15 or newer; this is ${version}\n`,
});

describe.each(['src/launch.js', mainFile()])('%s', main => {
  const old = findOldNode();

  it.skipIf(!old)('the program prints one sentence and exits with 2 under an installed older Node.js', () => {
    if (old) expect(run(old.file, main, 'serve', '--config', 'x.yaml')).toEqual(refusal(old.version));
  });

  const runAs = (version: string, ...args: string[]) => {
    const other = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`;
    return run(process.execPath, '--import', `data:text/javascript,${encodeURIComponent(other)}`, main, ...args);
  };

  it.each(['20.1.2', '24.14.9'])(
    'the program prints one sentence and exits with 2 if process.versions contains Node.js %s',
    version => expect(runAs(version, 'serve')).toEqual(refusal(version)),
  );

  it.each(['24.15.0', '25.0.0'])('the program runs if process.versions contains Node.js %s', version => {
    expect(runAs(version, '--version')).toMatchObject({ status: 0, stderr: '' });
  });
});
