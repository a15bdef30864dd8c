import { expect, it } from 'vitest';
import { accountRecordReader } from '../../src/store/account-row.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { createManualClock } from '../support/manual-clock.ts';

it('the account record is read again from PostgreSQL after five minutes', async () => {
  const [store, clock] = [createMemoryStore(), createManualClock()];
  const read = accountRecordReader({ kind: 'postgres' }, 'a', { store, clock });
  const write = (plan: string) =>
    store.commit(NO_ACCOUNT, [
      { key: 'account-record/a', value: JSON.stringify({ plan }) },
      { key: 'account-record/ab', value: '{}' },
    ]);
  expect(await read()).toBeUndefined();
  await write('pro');
  expect(await read()).toBeUndefined();
  await clock.advance(300_000);
  expect(await read()).toEqual({ plan: 'pro' });
  await write('free');
  await clock.advance(299_999);
  expect(await read()).toEqual({ plan: 'pro' });
  await clock.advance(1);
  expect(await read()).toEqual({ plan: 'free' });
});
