/**
 * Commits without end to the store at argv[2], several at a time, from number argv[3]. Prints `opening`, `open`, and the
 * number of every commit that was acknowledged.
 */
import { writeSync } from 'node:fs';
import { openSqliteStore } from '../../src/store/sqlite.ts';

const [path = '', first = '0'] = process.argv.slice(2);
/** Written at once: what stands on standard output has happened before. */
const say = (text: string) => writeSync(1, `${text}\n`);

say('opening');
const store = await openSqliteStore({ path });
say('open');

for (let n = Number(first); ; ) {
  const together = 1 + (n % 5);
  const commits = Array.from({ length: together }, async (_, index) => {
    const number = n + index;
    // Of many sizes, up to a hundred pages, so that death comes within a write; old rows go, so that pages are used again.
    const value = `${number} ${'x'.repeat((number * 7919) % 400_000)}`;
    await store.commit('a', [
      { key: `left/${number}`, value },
      { key: 'last/left', value },
      { key: `left/${number - 50}`, value: null },
      { key: `right/${number}`, value },
      { key: 'last/right', value },
      { key: `right/${number - 50}`, value: null },
    ]);
    say(String(number));
  });
  await Promise.all(commits);
  n += together;
}
