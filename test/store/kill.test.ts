import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { createChance } from '../support/chance.ts';
import { newFolder } from '../support/folder.ts';

const CHILD = fileURLToPath(new URL('./kill-child.ts', import.meta.url));

/**
 * Runs the committing process, kills it with SIGKILL when `isTime` returns true for its output, and returns all
 * lines.
 */
async function runAndKill(
  path: string,
  first: number,
  isTime: (lines: readonly string[]) => boolean,
): Promise<string[]> {
  const child = spawn(process.execPath, [CHILD, path, String(first)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', line => {
    lines.push(line);
    if (isTime(lines)) child.kill('SIGKILL');
  });
  expect(await closed).toEqual([null, 'SIGKILL']);
  return lines;
}

describe('processes killed with SIGKILL', () => {
  it('every acknowledged commit of a killed process is kept, and each one is complete', async () => {
    const path = join(newFolder(), 'rows.db');
    const chance = createChance();
    let first = 0;
    for (let round = 0; round < 8; round += 1) {
      const lifetime = chance.between(3, 122);
      const lines = await runAndKill(path, first, ({ length }) => length === lifetime);
      const acknowledged = Math.max(first - 1, ...lines.slice(2).map(Number));
      expect(lines.slice(2).map(Number)).toEqual(lines.slice(2).map((_, n) => first + n));

      const store = await openSqliteStore({ path });
      const [left, right, last] = await Promise.all(
        ['left/', 'right/', 'last/'].map(prefix => store.scan('a', prefix)),
      );
      await store.close();
      const numbers = [...(left as Map<string, string>).keys()]
        .map(key => Number(key.split('/')[1]))
        .sort((a, b) => a - b);
      const newest = numbers.at(-1) ?? -1;
      expect(newest).toBeGreaterThanOrEqual(acknowledged);
      // Exactly the newest fifty commits remain, without a gap: each commit's additions and removals were written together.
      const oldest = Math.max(0, newest - 49);
      expect(numbers).toEqual(Array.from({ length: newest - oldest + 1 }, (_, n) => oldest + n));
      for (const number of numbers) {
        const value = left?.get(`left/${number}`);
        expect(
          value?.startsWith(`${number} `) && value.length === `${number} `.length + ((number * 7919) % 400_000),
        ).toBe(true);
        expect(right?.get(`right/${number}`) === value).toBe(true);
      }
      expect(right?.size).toBe(numbers.length);
      expect(last?.get('last/left') === left?.get(`left/${newest}`)).toBe(true);
      expect(last?.get('last/right') === left?.get(`left/${newest}`)).toBe(true);
      first = newest + 1;
    }
  });

  it('a killed process leaves a file that can be opened, even if it was killed while creating the file', async () => {
    const folder = newFolder();
    for (let round = 0; round < 6; round += 1) {
      const path = join(folder, String(round), 'rows.db');
      await runAndKill(path, 0, ([line]) => line === 'opening');
      const store = await openSqliteStore({ path });
      await store.commit('a', [{ key: 'k', value: 'v' }]);
      expect((await store.scan('a', 'k')).get('k')).toBe('v');
      await store.close();
    }
  });
});
