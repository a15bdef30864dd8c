import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

/** Ends with the MiB of the young generation, both halves, after 200 MB of short-lived garbage, a collection that makes it small, and as much again. */
const SCRIPT = `
  import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
  import { setImmediate } from 'node:timers/promises';
  import { runInNewContext } from 'node:vm';
  import { createRoom } from '${new URL('../../src/app/many-accounts.ts', import.meta.url)}';
  // As main.js does.
  setFlagsFromString('--semi-space-growth-factor=1');
  createRoom().makeFor(Number(process.argv[1]));
  const young = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space').space_size / 2 ** 20;
  async function allocate() {
    let kept = [];
    for (let turn = 0; turn < 2000; turn += 1) {
      for (let index = 0; index < 1000; index += 1) kept.push({ turn, index, text: [turn, index] });
      if (kept.length > 50_000) kept = kept.slice(25_000);
      await setImmediate();
    }
    return young();
  }
  const grown = await allocate();
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')({ type: 'major', flavor: 'last-resort', execution: 'sync' });
  console.log(JSON.stringify([grown, young(), await allocate()]));
`;

async function youngAfter(accounts: number): Promise<readonly number[]> {
  const flags = ['--input-type=module', '--eval', SCRIPT];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '--', String(accounts)]);
  return JSON.parse(stdout);
}

it('lets the young generation grow to 16 MiB, again and again, and no further, for many accounts alone', async () => {
  const [few, [grown, small, again]] = await Promise.all([youngAfter(49), youngAfter(50)]);
  // A scavenge may leave a page or two more.
  expect(Math.max(...few)).toBeLessThan(4);
  expect(grown).toBeGreaterThan(12);
  expect(grown).toBeLessThan(18);
  expect(small).toBeLessThan(4);
  expect(again).toBeGreaterThan(12);
  expect(again).toBeLessThan(18);
});
