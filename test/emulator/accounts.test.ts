import { expect, test } from 'vitest';
import type { EmulatedAccount, Emulator } from '../../src/emulator/server.ts';
import { ask, emptyEmulator, emulator } from './emulated.ts';

/** Sends a request with the token of an account. */
const askAs = ({ url }: Emulator, { token }: EmulatedAccount, path: string) => ask({ url, token } as Emulator, path);
const idsOf = async (emulated: Emulator, account: EmulatedAccount) =>
  (await askAs(emulated, account, '/v2/dlq')).body.messages.map(({ messageId }: { messageId: string }) => messageId);

test('each account has its own tokens and rows; an unknown token is rejected', async () => {
  const emulated = await emptyEmulator({ accounts: 3, token: 'given' });
  const { accounts } = emulated;
  expect(accounts).toHaveLength(3);
  expect(accounts[0].token).toBe('given');
  expect(new Set(accounts.flatMap(({ token, credentials }) => [token, credentials.readOnlyToken])).size).toBe(6);
  for (const [index, account] of accounts.entries()) account.state.addDlqEntry({ messageId: `of-${index + 1}` });
  expect(await Promise.all(accounts.map(account => idsOf(emulated, account)))).toEqual([['of-1'], ['of-2'], ['of-3']]);
  for (const { credentials, state } of accounts) {
    const headers = { authorization: `Bearer ${credentials.readOnlyToken}` };
    expect((await ask(emulated, '/v2/dlq', { headers })).body.messages).toHaveLength(1);
    expect((await ask(emulated, '/v2/dlq', { headers, method: 'DELETE' })).status).toBe(403);
    expect(state.calls()).toEqual({ 'GET /v2/dlq': 2, 'DELETE /v2/dlq': 1 });
  }
  expect((await ask(emulated, '/v2/dlq', { headers: { authorization: 'Bearer nobody' } })).status).toBe(401);
  // Requests with an unknown token are counted for the first account.
  expect(accounts.map(({ state }) => state.calls()['GET /v2/dlq'])).toEqual([3, 2, 2]);
});

test('each account has a different workload, which depends only on the seed', async () => {
  const options = { accounts: 3, seed: 5, history: 60_000 };
  const [one, two] = [await emulator(options), await emulator(options)];
  const rows = ({ accounts }: Emulator) => accounts.map(({ state }) => state.eventRows());
  expect(rows(one)).toEqual(rows(two));
  const [first = [], second = [], third = []] = rows(one);
  expect([first.length, second.length, third.length].every(length => length > 50)).toBe(true);
  const ids = new Set([...first, ...second, ...third].map(({ messageId }) => messageId));
  const each = [first, second, third].map(events => new Set(events.map(({ messageId }) => messageId)).size);
  expect(ids.size).toBe(each.reduce((sum, size) => sum + size, 0));
});

test('faults, dialect and token resets of one account do not affect others', async () => {
  const emulated = await emptyEmulator({ accounts: 2 });
  const [one, two] = emulated.accounts as readonly [EmulatedAccount, EmulatedAccount];
  two.faults.add({ kind: 'status', status: 500 });
  one.dialect.lastCursor = 'empty';
  expect((await askAs(emulated, one, '/v2/dlq')).body).toEqual({ cursor: '', messages: [] });
  expect((await askAs(emulated, two, '/v2/dlq')).status).toBe(500);
  two.faults.clear();
  expect((await askAs(emulated, two, '/v2/dlq')).body).toEqual({ messages: [] });

  const before = [one.token, two.token];
  const { username, password } = two.credentials.login;
  expect(username).not.toBe(one.credentials.login.username);
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const { body } = await ask(emulated, '/svc/user/rotatetoken', { method: 'POST', headers: { authorization } });
  expect(body).toMatchObject({ token: two.token, customer_id: username });
  expect([one.token, two.token].map((token, index) => token === before[index])).toEqual([true, false]);
  expect((await ask(emulated, '/v2/dlq', { headers: { authorization: `Bearer ${before[1]}` } })).status).toBe(401);
  expect((await askAs(emulated, two, '/v2/dlq')).status).toBe(200);
});
