/**
 * Commits endlessly to the store at argv[2], several commits concurrently, numbered from argv[3]. Prints `opening`,
 * `open`, and the number of every acknowledged commit.
 */
import { writeSync } from 'node:fs';
import { openSqliteStore } from '../../src/store/sqlite.ts';

const [path = '', first = '0'] = process.argv.slice(2);
/** Writes synchronously, so that every printed line describes a completed step. */
const print = (text: string) => writeSync(1, `${text}\n`);

print('opening');
const store = await openSqliteStore({ path });
print('open');

for (let n = Number(first); ; ) {
  const together = 1 + (n % 5);
  const commits = Array.from({ length: together }, async (_, index) => {
    const number = n + index;
    // Vary the size of values, up to a hundred pages, so that the process is likely to be killed during a write. Delete old
    // rows, so that pages are reused.
    const value = `${number} ${'x'.repeat((number * 7919) % 400_000)}`;
    await store.commit('a', [
      { key: `left/${number}`, value },
      { key: 'last/left', value },
      { key: `left/${number - 50}`, value: null },
      { key: `right/${number}`, value },
      { key: 'last/right', value },
      { key: `right/${number - 50}`, value: null },
    ]);
    print(String(number));
  });
  await Promise.all(commits);
  n += together;
}
