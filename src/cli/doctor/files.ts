import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { mayExist } from '../../auto-cancel/context.ts';
import { filesOf } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { secretsOf, writtenSecrets } from '../../config/secrets.ts';
import { readWebConfig } from '../../config/web-config.ts';
import { type Diagnosis, ok, skip, warn } from './checklist.ts';

function isOpen(file: string, others: number): boolean {
  const { mode = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  return (mode & others) !== 0;
}

/** Returns the files that contain password hashes or the certificate's key. */
function filesOfPort({ server: { webConfigFile } }: Config): readonly string[] {
  if (webConfigFile === null) return [];
  try {
    const { stamps, users } = readWebConfig(webConfigFile).config;
    const hasUsers = (file: string) => file === webConfigFile && users.size > 0;
    return [...stamps.keys()].filter(file => hasUsers(file) || readFileSync(file, 'utf8').includes('PRIVATE KEY'));
  } catch {
    return [webConfigFile];
  }
}

/** Checks the permissions of files with secrets. Dedicated secret files may be group-readable, as in containers. */
export function checkPermissions(file: string, config: Config): readonly Diagnosis[] {
  if (process.platform === 'win32') return [skip('Windows has no file modes')];
  const written = [file, ...config.accountFiles.flatMap(pattern => filesOf(pattern, file))];
  const isWritten = writtenSecrets(config).length > 0;
  const own = isWritten ? written.filter(each => isOpen(each, 0o044)) : [];
  const files = new Set([
    ...secretsOf(config).flatMap(({ setting }) => ('file' in setting ? [setting.file] : [])),
    ...filesOfPort(config),
  ]);
  const open = [...files].filter(each => isOpen(each, 0o007));
  const found = [
    ...own.map(each => warn(`${each} holds secrets, and other users may read it`, `chmod 600 ${each}`)),
    ...open.map(each => warn(`${each} can be read or written by every user`, `chmod 600 ${each}`)),
  ];
  if (found.length > 0) return found;
  return [
    ok(isWritten || files.size > 0 ? 'only owner and group may read the files with secrets' : 'no file holds a secret'),
  ];
}

export function checkStopFile({ autoCancel: { mode, rules, stopFile } }: Config): Diagnosis {
  if (mode === 'off' || rules.length === 0) return skip('auto-cancel is off');
  if (!mayExist(stopFile)) return ok(`${resolve(stopFile)} does not exist`);
  const todo = 'remove it to let auto-cancel continue; make its folder readable';
  return warn(`${resolve(stopFile)} exists or can't be checked: nothing is cancelled`, todo);
}
