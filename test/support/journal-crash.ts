/**
 * Loaded into a process before its program (`--import`). Kills it with SIGKILL `before` or `after` the Nth commit of a
 * journal step of auto-cancel (JOURNAL_CRASH: `before answered 1`). Appends each committed journal line to
 * JOURNAL_TRACE: key, space, value.
 */
import { appendFileSync } from 'node:fs';
import { DatabaseSync, StatementSync } from 'node:sqlite';

const { JOURNAL_CRASH = '', JOURNAL_TRACE = '' } = process.env;
const [when, crashStep, number] = JOURNAL_CRASH.split(' ');
const { exec } = DatabaseSync.prototype;
const { run } = StatementSync.prototype;
/** Lines of the open transaction. */
let lines: (readonly [key: string, value: string])[] = [];
let count = 0;

StatementSync.prototype.run = function (...args: unknown[]) {
  const [, key, value] = args;
  if (String(key).startsWith('auto-cancel/journal/')) lines.push([String(key), String(value)]);
  return Reflect.apply(run, this, args);
};

DatabaseSync.prototype.exec = function (sql) {
  if (sql !== 'COMMIT') {
    lines = [];
    return exec.call(this, sql);
  }
  const hasStep = lines.some(([, value]) => JSON.parse(value).step === crashStep);
  if (hasStep) count += 1;
  const isMeant = hasStep && count === Number(number);
  if (isMeant && when === 'before') process.kill(process.pid, 'SIGKILL');
  exec.call(this, sql);
  for (const [key, value] of lines) appendFileSync(JOURNAL_TRACE, `${key} ${value}\n`);
  lines = [];
  if (isMeant && when === 'after') process.kill(process.pid, 'SIGKILL');
};
