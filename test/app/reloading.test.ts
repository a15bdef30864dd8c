import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createReloading, type ReloadDeps } from '../../src/app/reload.ts';
import { loadConfig } from '../../src/config/load.ts';
import { newFolder } from '../support/folder.ts';
import { createTestLog } from '../support/silent.ts';

it('is one at a time, at whichever moment the next is asked for', async () => {
  const file = join(newFolder(), 'config.yaml');
  writeFileSync(file, 'accounts: [{ name: a, baseUrl: "https://a.example", token: aaaaaaaa }]');
  const loaded = loadConfig(file, {});
  for (let turns = 0; turns < 12; turns += 1) {
    let [running, most] = [0, 0];
    const asked: Promise<unknown>[] = [];
    const { promise: isOver, resolve: end } = Promise.withResolvers<readonly string[]>();
    let begun = 0;
    const runtime: ReloadDeps['runtime'] = {
      log: createTestLog(),
      loaded,
      configRead: () => undefined,
      async reload() {
        begun += 1;
        running += 1;
        most = Math.max(most, running);
        await (begun === 1 ? isOver : new Promise(resolve => setTimeout(resolve, 1)));
        running -= 1;
        return [];
      },
    };
    const reloading = createReloading({ runtime, env: {}, tried: undefined, openPort: async () => undefined });
    asked.push(reloading.reload(), reloading.reload());
    while (begun === 0) await new Promise(resolve => setTimeout(resolve, 1));
    end([]);
    await isOver;
    for (let turn = 0; turn < turns; turn += 1) await undefined;
    asked.push(reloading.reload());
    await Promise.all(asked);
    expect([turns, most]).toEqual([turns, 1]);
  }
});
