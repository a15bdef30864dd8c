import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { hashSync } from 'bcryptjs';
import { describe, expect, it } from 'vitest';
import { createPasswords, type PasswordResult } from '../../src/http/passwords.ts';
import { type Clock, systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const usersOf = (cost: number) =>
  new Map(['alice', 'bob'].map(user => [user, new Secret(hashSync(`${user}-canary`, cost))]));
const right = (user: string) => ({ user, password: `${user}-canary` });

/** Creates a password checker. A check takes a few milliseconds; each increment of `cost` doubles the time. */
function create(cost = 6) {
  const users = usersOf(cost);
  const passwords = createPasswords(systemClock, createTestLog());
  afterThisTest(passwords.close);
  let guesses = 0;
  /** Returns credentials with a wrong password that was not used before. */
  function guess(user = 'alice') {
    guesses += 1;
    return { user, password: `guess ${guesses}` };
  }
  const check = async (given: { user: string; password: string }, client = 'a'): Promise<PasswordResult> =>
    passwords.check(users, given, client);
  return { users, passwords, check, guess };
}

describe('passwords', () => {
  it('passwords are verified in another thread', async () => {
    const { check, guess } = create(9);
    await check(guess());
    const [all, own] = [process.cpuUsage(), process.threadCpuUsage()];
    for (let count = 0; count < 5; count += 1) expect(await check(guess())).toBe('wrong');
    const [spent, here] = [process.cpuUsage(all).user, process.threadCpuUsage(own).user];
    expect(here / spent).toBeLessThan(0.5);
  });

  it('correct passwords are cached until their hash changes', async () => {
    const { users, passwords, check } = create();
    expect(await check(right('alice'))).toBe('right');
    expect(passwords.check(users, right('alice'), 'b')).toBe('right');
    expect(passwords.check(users, right('bob'), 'b')).toBeInstanceOf(Promise);
    const changed = new Map([...users, ['alice', new Secret(hashSync('other', 4))] as const]);
    expect(await passwords.check(changed, right('alice'), 'a')).toBe('wrong');
    expect(await passwords.check(new Map(), right('alice'), 'a')).toBe('wrong');
  });

  it('a password that several concurrent requests use is verified once', async () => {
    const { passwords, users } = create();
    const verdicts = Array.from({ length: 1000 }, () => passwords.check(users, right('alice'), 'a'));
    expect(new Set(verdicts).size).toBe(1);
    expect(await verdicts[0]).toBe('right');
  });

  it('verifying a password takes as long for unknown users as for known ones', async () => {
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
    // An unknown user is checked against the hash of an existing user, whose password must not be accepted.
    for (const password of ['alice-canary', 'bob-canary']) {
      expect(await passwords.check(users, { user: 'mallory', password }, 'a')).toBe('wrong');
    }
  });

  it('password checks of a client that guesses thousands of passwords are rejected without blocking other clients', async () => {
    const { check, guess } = create();
    const first = await check(right('bob'));
    const flood = Array.from({ length: 10_000 }, () => check(guess(), 'flood'));
    let isOver = false;
    void Promise.all(flood).then(() => {
      isOver = true;
    });
    expect([first, await check(right('bob'), 'flood')]).toEqual(['right', 'right']);
    // A password that is not cached waits only for the check in progress, not for the queue.
    expect([await check(right('alice'), 'other'), isOver]).toEqual(['right', false]);
    const verdicts = Map.groupBy(await Promise.all(flood), verdict => verdict);
    expect([verdicts.get('wrong')?.length, verdicts.get('crowded')?.length]).toEqual([17, 10_000 - 17]);
  });

  it('password checks are rejected if hundreds of clients guess passwords concurrently', async () => {
    const { check, guess } = create(4);
    const flood = await Promise.all(Array.from({ length: 400 }, (_, client) => check(guess(), `client ${client}`)));
    expect(Map.groupBy(flood, verdict => verdict).get('full')?.length).toBe(400 - 257);
  });
});

/** Creates a password checker. Its first thread runs `first`, and later threads accept every password. */
function createWith(first: string, { clock = systemClock, within = 4000 }: { clock?: Clock; within?: number } = {}) {
  const folder = newFolder();
  const [worker, started] = [join(folder, 'worker.mjs'), join(folder, 'started')];
  writeFileSync(started, '');
  writeFileSync(
    worker,
    `import { appendFileSync, statSync } from 'node:fs';
    const isFirst = statSync('${started}').size === 0;
    appendFileSync('${started}', 'x');
    let checkPassword = () => true;
    if (isFirst) { ${first} }
    export { checkPassword };`,
  );
  const log = createTestLog();
  const passwords = createPasswords(clock, log, pathToFileURL(worker), within);
  afterThisTest(passwords.close);
  const users = usersOf(4);
  return {
    log,
    passwords,
    started: () => statSync(started).size,
    check: async (user: string) => passwords.check(users, right(user), user),
  };
}

const HANGS = 'checkPassword = () => { for (;;) {} };';
const OUT_OF_MEMORY = 'checkPassword = () => { for (const all = []; ; ) all.push(Array(100_000).fill(0.5)); };';

describe('password threads', () => {
  it.each([
    ['fails to start', 'throw new Error("broken");', 15_000, 'broken'],
    ['exits', 'checkPassword = () => process.exit();', 4000, 'no response within 4000 ms'],
    ['hangs', HANGS, 4000, 'no response within 4000 ms'],
    ['needs too much memory', OUT_OF_MEMORY, 15_000, 'reaching memory limit'],
  ])(
    'if a password thread %s, its check is rejected, the error is logged, and a waiting check starts another thread',
    async (_how, code, within, message) => {
      const { check, started, log } = createWith(code, { within });
      const [first, second] = await Promise.allSettled([check('alice'), check('bob')]);
      expect((first as PromiseRejectedResult).reason.message).toContain(message);
      expect(second).toEqual({ status: 'fulfilled', value: 'right' });
      expect(started()).toBe(2);
      expect(log.lines.map(({ level, fields }) => [level, JSON.stringify(fields)])).toEqual([
        ['error', expect.stringContaining(message)],
        ['info', '{}'],
      ]);
    },
  );

  it('a check that waits too long for other checks is rejected', async () => {
    const clock = createManualClock();
    const { check } = createWith(HANGS, { clock });
    const [first, second] = [check('alice'), check('bob')].map(each => each.catch((error: Error) => error.message));
    await clock.advance(15_001);
    expect([await first, await second]).toEqual(['no response within 4000 ms', 'too many checks']);
    expect(await check('alice')).toBe('right');
  });

  it('closing rejects the check in progress and all waiting checks', async () => {
    const { check, passwords } = createWith(HANGS);
    const checks = Promise.allSettled([check('alice'), check('bob')]);
    await passwords.close();
    expect((await checks).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });
});
