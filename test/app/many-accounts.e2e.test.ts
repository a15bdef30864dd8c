import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

/** Ends with the MiB of the young generation, both halves, after 200 MB of short-lived garbage. */
const SCRIPT = `
  import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
  import { setImmediate } from 'node:timers/promises';
  import { makeRoomFor } from '${new URL('../../src/app/many-accounts.ts', import.meta.url)}';
  // As main.ts does.
  setFlagsFromString('--semi-space-growth-factor=1');
  makeRoomFor(Number(process.argv[1]));
  let kept = [];
  for (let turn = 0; turn < 2000; turn += 1) {
    for (let index = 0; index < 1000; index += 1) kept.push({ turn, index, text: [turn, index] });
    if (kept.length > 50_000) kept = kept.slice(25_000);
    await setImmediate();
  }
  console.log(getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space').space_size / 2 ** 20);
`;

async function youngAfter(accounts: number): Promise<number> {
  const flags = ['--input-type=module', '--eval', SCRIPT];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '--', String(accounts)]);
  return Number(stdout);
}

it('lets the young generation grow to 16 MiB, and no further, for many accounts alone', async () => {
  const [few = 0, many = 0] = await Promise.all([youngAfter(49), youngAfter(50)]);
  // A scavenge may leave a page or two more.
  expect(few).toBeLessThan(4);
  expect(many).toBeGreaterThan(12);
  expect(many).toBeLessThan(18);
});
