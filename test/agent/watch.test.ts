import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createWatch } from '../../src/agent/reload.ts';
import { loadConfig } from '../../src/config/load.ts';
import { newFolder } from '../support/folder.ts';

it('the file watch retries a failed reload with increasing delays, and immediately when files change', async () => {
  const file = join(newFolder(), 'config.yaml');
  const text = 'accounts: [{ name: a, baseUrl: "https://a.example", token: aaaaaaaa }]';
  writeFileSync(file, text);
  const loaded = loadConfig(file, {});
  let reloads = 0;
  const look = createWatch({
    loaded: () => loaded,
    tried: () => undefined,
    reload: async () => {
      reloads += 1;
    },
  });
  const looks: number[] = [];
  for (let number = 1; number <= 200; number += 1) {
    const before = reloads;
    await look();
    if (reloads > before) looks.push(number);
  }
  expect(looks).toEqual([2, 4, 7, 12, 21, 38, 71, 132, 193]);
  writeFileSync(file, `${text} `);
  await look();
  await look();
  expect(reloads).toBe(looks.length + 1);
  await look();
  await look();
  expect(reloads).toBe(looks.length + 2);
});
