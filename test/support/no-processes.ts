import childProcess from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

/** Loaded before each unit test: what starts a process is an end-to-end test, and has to be named as one. */
function refuse(): never {
  throw new Error('a unit test starts no process: put it into test/e2e/, or call its file *.e2e.test.ts');
}

const starters = Object.keys(childProcess).filter(name => /^(exec|fork|spawn)/.test(name));
Object.assign(childProcess, Object.fromEntries(starters.map(name => [name, refuse])));
syncBuiltinESMExports();
