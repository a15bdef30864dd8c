import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createReloading, type ReloadDeps } from '../../src/agent/reload.ts';
import { loadConfig } from '../../src/config/load.ts';
import { newFolder } from '../support/folder.ts';
import { createTestLog } from '../support/silent.ts';

it('reloads run sequentially, regardless of when the next one is requested', async () => {
  const file = join(newFolder(), 'config.yaml');
  writeFileSync(file, 'accounts: [{ name: a, baseUrl: "https://a.example", token: aaaaaaaa }]');
  const loaded = loadConfig(file, {});
  for (let turns = 0; turns < 12; turns += 1) {
    let [running, most] = [0, 0];
    const requested: Promise<unknown>[] = [];
    const { promise: isOver, resolve: end } = Promise.withResolvers<readonly string[]>();
    let begun = 0;
    const supervisor: ReloadDeps['supervisor'] = {
      loaded,
      async reload() {
        begun += 1;
        running += 1;
        most = Math.max(most, running);
        await (begun === 1 ? isOver : new Promise(resolve => setTimeout(resolve, 1)));
        running -= 1;
        return [];
      },
    };
    const reloading = createReloading({
      supervisor,
      log: createTestLog(),
      configRead: () => undefined,
      env: {},
      tried: undefined,
    });
    requested.push(reloading.reload(), reloading.reload());
    while (begun === 0) await new Promise(resolve => setTimeout(resolve, 1));
    end([]);
    await isOver;
    for (let turn = 0; turn < turns; turn += 1) await undefined;
    requested.push(reloading.reload());
    await Promise.all(requested);
    expect([turns, most]).toEqual([turns, 1]);
  }
});
