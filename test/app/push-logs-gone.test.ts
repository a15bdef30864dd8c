import { expect, it } from 'vitest';
import { startTwoReplicas } from '../support/two-replicas.ts';
import { loadedFrom } from '../support/view-scene.ts';

const RECORD = 'push/logs/000000000000001/000000001/x/1';
const ROWS = [RECORD, 'events/other'].map(key => ({ key, value: '{}' }));

it('deletes log records of accounts that no replica has configured any more, after a start and after a reload', async () => {
  const { emulator, shared, one, two, until } = await startTwoReplicas();
  for (const account of ['alpha', 'beta', 'gone']) await shared.rows.commit(account, ROWS);
  const has = async (account: string) => (await shared.rows.scan(account, 'push/logs/')).has(RECORD);
  await until(async () => expect(await has('gone')).toBe(false));
  expect((await shared.rows.scan('gone', '')).has('events/other')).toBe(true);
  expect(await has('alpha')).toBe(true);

  const without = loadedFrom({ accounts: [{ name: 'alpha', baseUrl: emulator.url, token: 'view-token' }] });
  await one.reload(without, async () => undefined);
  await shared.rows.commit('gone', ROWS);
  await until(async () => expect(await has('gone')).toBe(false));
  // The other replica has it still.
  expect(await has('beta')).toBe(true);
  await two.reload(without, async () => undefined);
  await until(async () => expect(await has('beta')).toBe(false));
  expect(await has('alpha')).toBe(true);
});
