import { Worker } from 'node:worker_threads';
import { hashSync } from 'bcryptjs';
import { describe, expect, it } from 'vitest';
import { createPasswords, type PasswordResult, type PasswordThread } from '../../src/http/passwords.ts';
import { type Clock, systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { afterThisTest } from '../support/client.ts';
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

/** Creates a password checker that starts its threads with `starts`, in order; the last entry is used repeatedly. */
function createWith(clock: Clock, ...starts: (() => PasswordThread)[]) {
  const log = createTestLog();
  let started = 0;
  const start = () => {
    started += 1;
    return (starts[Math.min(started, starts.length) - 1] as () => PasswordThread)();
  };
  const passwords = createPasswords(clock, log, start);
  afterThisTest(passwords.close);
  const users = usersOf(4);
  return { log, started: () => started, check: async (user: string) => passwords.check(users, right(user), user) };
}

const realThread = () => new Worker(new URL('../../src/http/password-worker.ts', import.meta.url));
const threadOf = (code: string) => () => new Worker(code, { eval: true });
const hanging = threadOf('for (;;) {}');

function failing(): PasswordThread {
  throw new Error('ERR_WORKER_INIT_FAILED');
}

describe('password threads', () => {
  it('if a password thread fails to start, its checks are rejected and the next check starts another thread', async () => {
    const { check, started, log } = createWith(systemClock, failing, failing, realThread);
    for (let time = 0; time < 2; time += 1) await expect(check('alice')).rejects.toThrow('ERR_WORKER_INIT_FAILED');
    expect(await check('alice')).toBe('right');
    expect(started()).toBe(3);
    expect(log.lines.map(({ level }) => level)).toEqual(['error', 'info']);
  });

  it.each([
    ['exits', 'process.exit()', 'exited'],
    ['throws', 'throw new Error("broken")', 'broken'],
    [
      'exits during a comparison',
      'require("node:worker_threads").parentPort.on("message", () => process.exit())',
      'exited',
    ],
  ])(
    'if a password thread %s, its check is rejected and a waiting check starts another thread',
    async (_how, code, error) => {
      const { check, started } = createWith(systemClock, threadOf(code), realThread);
      const [first, second] = await Promise.allSettled([check('alice'), check('bob')]);
      expect(String((first as PromiseRejectedResult).reason)).toContain(error);
      expect(second).toEqual({ status: 'fulfilled', value: 'right' });
      expect(started()).toBe(2);
    },
  );

  it('a password thread that hangs is replaced at its deadline, and a check that waits too long is rejected', async () => {
    const clock = createManualClock();
    const { check, started } = createWith(clock, hanging, hanging, realThread);
    const reasonOf = (user: string) => check(user).catch((error: Error) => error.message);
    const [first, second] = [reasonOf('alice'), reasonOf('bob')];
    await clock.advance(1);
    const third = reasonOf('carol');
    await clock.advance(14_999);
    expect(await first).toBe('no result within 15 s');
    expect(started()).toBe(2);
    await clock.advance(15_000);
    expect([await second, await third]).toEqual(['no result within 15 s', 'too many checks']);
    expect(await check('alice')).toBe('right');
    expect(started()).toBe(3);
  });
});
