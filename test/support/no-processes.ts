import childProcess from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

/** Loaded before each unit test: tests that start a process are end-to-end tests and must be named accordingly. */
function refuse(): never {
  throw new Error('a unit test must not start processes: move it to test/e2e/ or name its file *.e2e.test.ts');
}

const starters = Object.keys(childProcess).filter(name => /^(exec|fork|spawn)/.test(name));
Object.assign(childProcess, Object.fromEntries(starters.map(name => [name, refuse])));
syncBuiltinESMExports();
