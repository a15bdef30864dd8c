/**
 * Loaded into a process before its program (`--import`). Counts file operations in CRASH_FOLDER and kills the process with
 * SIGKILL before operation number CRASH_AT. Operations that match CRASH_FAIL (`rename token EBUSY`: operation, part of the
 * path, code) fail; with a fourth word `N`, only from the Nth match on. CRASH_TRACE: file that receives one line per operation, `operation file`.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { relative } from 'node:path';

const { CRASH_FOLDER = '', CRASH_AT, CRASH_FAIL = '', CRASH_TRACE } = process.env;
const [failing, part = '', code = '', first = '1'] = CRASH_FAIL.split(' ');
const { openSync, writeSync, fsyncSync, ftruncateSync, renameSync, rmSync, symlinkSync, appendFileSync } = fs;
const opened = new Map<number, string>();
let count = 0;
let matches = 0;

function before(operation: string, path: string): void {
  if (!path.startsWith(CRASH_FOLDER)) return;
  count += 1;
  if (count === Number(CRASH_AT)) process.kill(process.pid, 'SIGKILL');
  if (CRASH_TRACE) appendFileSync(CRASH_TRACE, `${operation} ${relative(CRASH_FOLDER, path)}\n`);
  if (operation !== failing || !path.includes(part)) return;
  matches += 1;
  if (matches >= Number(first)) throw Object.assign(new Error(code), { code });
}

const nameOf = (handle: number) => opened.get(handle) ?? '';

Object.assign(fs, {
  openSync(...args: Parameters<typeof openSync>) {
    const path = String(args[0]);
    if (args[1] !== 'r') before('open', path);
    const handle = openSync(...args);
    opened.set(handle, path);
    return handle;
  },
  writeSync(...args: Parameters<typeof writeSync>) {
    before('write', nameOf(args[0]));
    return writeSync(...args);
  },
  fsyncSync(handle: number) {
    before('fsync', nameOf(handle));
    fsyncSync(handle);
  },
  ftruncateSync(handle: number, length?: number) {
    before('truncate', nameOf(handle));
    ftruncateSync(handle, length);
  },
  renameSync(from: string, to: string) {
    before('rename', to);
    renameSync(from, to);
  },
  symlinkSync(target: string, path: string) {
    before('symlink', path);
    symlinkSync(target, path);
  },
  rmSync(...args: Parameters<typeof rmSync>) {
    if (fs.existsSync(args[0])) before('remove', String(args[0]));
    rmSync(...args);
  },
});
syncBuiltinESMExports();
