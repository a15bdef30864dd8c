import { hashSync } from 'bcryptjs';
import { describe, expect, it } from 'vitest';
import { createPasswords, type Verdict } from '../../src/http/passwords.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { afterThisTest } from '../support/client.ts';
import { createTestLog } from '../support/silent.ts';

const usersOf = (cost: number) =>
  new Map(['alice', 'bob'].map(user => [user, new Secret(hashSync(`${user}-canary`, cost))]));
const right = (user: string) => ({ user, password: `${user}-canary` });

/** A check takes some milliseconds, and twice as long with each one that `cost` is higher. */
function create(cost = 6) {
  const users = usersOf(cost);
  const passwords = createPasswords(systemClock, createTestLog());
  afterThisTest(passwords.close);
  let guesses = 0;
  /** A wrong password that was never asked for. */
  function guess(user = 'alice') {
    guesses += 1;
    return { user, password: `guess ${guesses}` };
  }
  const check = async (given: { user: string; password: string }, client = 'a'): Promise<Verdict> =>
    passwords.check(users, given, client);
  return { users, passwords, check, guess };
}

describe('passwords', () => {
  it('are compared in another thread', async () => {
    const { check, guess } = create(9);
    await check(guess());
    const [all, own] = [process.cpuUsage(), process.threadCpuUsage()];
    for (let count = 0; count < 5; count += 1) expect(await check(guess())).toBe('wrong');
    const [spent, here] = [process.cpuUsage(all).user, process.threadCpuUsage(own).user];
    expect(here / spent).toBeLessThan(0.5);
  });

  it('that were right are known at once, and only while the hash is the same', async () => {
    const { users, passwords, check } = create();
    expect(await check(right('alice'))).toBe('right');
    expect(passwords.check(users, right('alice'), 'b')).toBe('right');
    expect(passwords.check(users, right('bob'), 'b')).toBeInstanceOf(Promise);
    const changed = new Map([...users, ['alice', new Secret(hashSync('other', 4))] as const]);
    expect(await passwords.check(changed, right('alice'), 'a')).toBe('wrong');
    expect(await passwords.check(new Map(), right('alice'), 'a')).toBe('wrong');
  });

  it('of many who ask at once with the same one are compared once', async () => {
    const { passwords, users } = create();
    const verdicts = Array.from({ length: 1000 }, () => passwords.check(users, right('alice'), 'a'));
    expect(new Set(verdicts).size).toBe(1);
    expect(await verdicts[0]).toBe('right');
  });

  it('of users that are not there are compared like others', async () => {
    const { users, passwords, check, guess } = create(7);
    await check(right('alice'));
    const cost = async (user: string) => {
      const before = process.cpuUsage().user;
      for (let count = 0; count < 5; count += 1) expect(await check(guess(user))).toBe('wrong');
      return process.cpuUsage().user - before;
    };
    await cost('alice');
    const ratios = [];
    for (let times = 0; times < 3; times += 1) ratios.push((await cost(`nobody-${times}`)) / (await cost('alice')));
    const [median = 0] = ratios.sort((a, b) => a - b).slice(1);
    expect(median).toBeGreaterThan(0.5);
    expect(median).toBeLessThan(2);
    // Not even with the password of the user whose hash stands in.
    for (const password of ['alice-canary', 'bob-canary']) {
      expect(await passwords.check(users, { user: 'mallory', password }, 'a')).toBe('wrong');
    }
  });

  it('that are guessed by thousands are refused, and hold up no other client', async () => {
    const { check, guess } = create();
    const known = await check(right('bob'));
    const flood = Array.from({ length: 10_000 }, () => check(guess(), 'flood'));
    let isOver = false;
    void Promise.all(flood).then(() => {
      isOver = true;
    });
    expect([known, await check(right('bob'), 'flood')]).toEqual(['right', 'right']);
    // One that is not known yet waits for the check under way, not for those that wait.
    expect([await check(right('alice'), 'other'), isOver]).toEqual(['right', false]);
    const verdicts = Map.groupBy(await Promise.all(flood), verdict => verdict);
    expect([verdicts.get('wrong')?.length, verdicts.get('crowded')?.length]).toEqual([17, 10_000 - 17]);
  });

  it('of very many clients at once are refused, too', async () => {
    const { check, guess } = create(4);
    const flood = await Promise.all(Array.from({ length: 400 }, (_, client) => check(guess(), `client ${client}`)));
    expect(Map.groupBy(flood, verdict => verdict).get('full')?.length).toBe(400 - 257);
  });
});
