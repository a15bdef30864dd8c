import { expect, it } from 'vitest';
import { createHandOvers } from '../../src/app/hand-over.ts';
import { createHolding } from '../../src/app/holding.ts';
import { createSerially } from '../../src/kit/serially.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { createSharedStore } from '../support/fake-replicas.ts';
import { createManualClock, settle } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const LEASE = 15_000;
const INTERVAL = LEASE / 5;
const MINUTE = 60_000;

/** A replica whose accounts are names: `damaged` ones can't be opened. What happens is in `course`. */
function setUp(configured: readonly string[]) {
  const clock = createManualClock();
  const database = createSharedStore(clock, LEASE);
  const damaged = new Set<string>();
  const course: string[] = [];
  const log = createTestLog();
  const { replicas } = database.join('one');
  const deps = { clock, random: () => 0, log };
  const holding = createHolding({ ...deps, replicas, accounts: configured });
  const inTurn = createSerially();
  let running: ReadonlySet<string> = new Set();
  let opening: Promise<void> = Promise.resolve();
  const handOvers = createHandOvers({
    ...deps,
    holding,
    inTurn,
    configured: () => configured,
    running: () => running,
    abort: names => void course.push(`abort ${names.join(' ')}`),
    async goOver(accounts) {
      await opening;
      if ([...accounts].some(account => !running.has(account) && damaged.has(account))) throw new Error('damaged');
      course.push(`run ${[...accounts].join(' ')}`);
      running = accounts;
    },
  });
  return {
    clock,
    database,
    damaged,
    course,
    log,
    holding,
    handOvers,
    inTurn,
    running: () => [...running].filter(account => account !== NO_ACCOUNT),
    /** Openings wait for what this gives to be called. */
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      opening = promise;
      return resolve;
    },
    lines: () => log.lines.map(({ level, fields, message }) => `${level} ${JSON.stringify(fields)} ${message}`),
  };
}

it('runs what it holds, and says in one line each time what has changed hands', async () => {
  const { clock, database, course, handOvers, lines } = setUp(['a', 'b', 'c']);
  for (const account of ['a', 'b']) database.place(account, 'one');
  database.place('c', 'two');
  handOvers.start();
  await clock.advance(0);
  database.place('b', 'two');
  await clock.advance(INTERVAL);
  database.place('c', 'one');
  await clock.advance(INTERVAL);
  expect(course).toEqual(['run  a b', 'run  a', 'run  a c']);
  expect(lines()).toEqual([
    'info {"gained":"(shared: heartbeat), a, b","held":2} accounts change hands',
    'info {"givenUp":"b","held":1} accounts change hands',
    'info {"gained":"c","held":2} accounts change hands',
  ]);
  expect([...database.holders()]).toEqual([
    [NO_ACCOUNT, 'one'],
    ['a', 'one'],
    ['c', 'one'],
  ]);
});

it('ends at once what is read for an account that was lost, and only then anything else', async () => {
  const { clock, database, course, handOvers, lines, hold } = setUp(['a', 'b']);
  for (const account of [NO_ACCOUNT, 'b']) database.place(account, 'one');
  handOvers.start();
  await clock.advance(0);
  const go = hold();
  database.isAway = true;
  await clock.advance(2 * LEASE);
  database.isAway = false;
  database.place('a', 'two');
  await database.join('two').replicas.renew(['a']);
  await clock.advance(INTERVAL);
  expect(course.at(-1)).toBe('abort a');
  go();
  await settle();
  expect(course.at(-1)).toBe('run  b');
  expect(lines().at(-1)).toBe('info {"lost":"a","held":1} accounts change hands');
  expect(lines().filter(line => line.startsWith('error'))).toEqual([]);
});

it('gives back an account that can not be opened, holds up no other for it, and tries it again ever later', async () => {
  const names = Array.from({ length: 40 }, (_, index) => `n${index}`);
  const { clock, damaged, database, handOvers, running, log } = setUp(names);
  for (const name of ['n7', 'n31']) damaged.add(name);
  handOvers.start();
  await clock.advance(0);
  expect(running().toSorted()).toEqual(names.filter(name => !damaged.has(name)).toSorted());
  expect(database.holders().has('n7')).toBe(false);
  const failures = () => log.lines.filter(({ level }) => level === 'error').map(({ fields }) => fields);
  expect(failures()).toEqual([
    { account: 'n7', error: 'Error: damaged', seconds: 15 },
    { account: 'n31', error: 'Error: damaged', seconds: 15 },
  ]);
  await clock.advance(30 * MINUTE);
  expect(failures().length).toBeGreaterThan(10);
  expect(failures().length).toBeLessThan(24);
  damaged.clear();
  await clock.advance(10 * MINUTE);
  expect(running()).toHaveLength(40);
});

it('keeps what it was given while the database is away, and opens it when that is back', async () => {
  const { clock, database, damaged, handOvers, running, log } = setUp(['a', 'b']);
  for (const name of ['a', 'b']) damaged.add(name);
  handOvers.start();
  // After the renewal, before anything is opened.
  await new Promise<void>(resolve => setImmediate(resolve));
  database.isAway = true;
  await settle();
  expect(running()).toEqual([]);
  damaged.clear();
  database.isAway = false;
  await clock.advance(INTERVAL);
  expect(running()).toEqual(['a', 'b']);
  expect(log.lines.filter(({ level }) => level === 'error')).toEqual([]);
});

it('calls no account damaged that was lost while it was opened', async () => {
  const { clock, database, damaged, handOvers, running, hold, log } = setUp(['a', 'b']);
  for (const account of [NO_ACCOUNT, 'b']) database.place(account, 'one');
  database.place('a', 'two');
  handOvers.start();
  await clock.advance(0);
  const release = hold();
  database.place('a', 'one');
  await clock.advance(INTERVAL);
  damaged.add('a');
  database.place('a', 'two');
  database.expire('a');
  await database.join('two').replicas.renew(['a']);
  release();
  await settle();
  expect(running()).toEqual(['b']);
  expect(log.lines.filter(({ level }) => level === 'error')).toEqual([]);
});

it('waits for a reload that is under way, and a reload for it', async () => {
  const { clock, database, course, handOvers, inTurn, hold, running } = setUp(['a', 'b']);
  database.place('b', 'two');
  const reload = Promise.withResolvers<void>();
  const reloading = inTurn(() => reload.promise.then(() => void course.push('reloaded')));
  handOvers.start();
  await clock.advance(0);
  expect(course).toEqual([]);
  reload.resolve();
  await reloading;
  await settle();
  expect(course).toEqual(['reloaded', 'run  a']);
  const go = hold();
  database.place('b', 'one');
  await clock.advance(INTERVAL);
  const next = inTurn(async () => void course.push('reloaded'));
  await settle();
  expect(course).toHaveLength(2);
  go();
  await next;
  expect(course.slice(2)).toEqual(['run  a b', 'reloaded']);
  expect(running()).toEqual(['a', 'b']);
});

it('begins none once it is to stop, and waits for the one that is under way', async () => {
  const { clock, database, course, handOvers, hold } = setUp(['a', 'b']);
  database.place('b', 'two');
  const go = hold();
  handOvers.start();
  await clock.advance(0);
  const stopped = handOvers.stop();
  database.place('b', 'one');
  await clock.advance(2 * INTERVAL);
  go();
  await stopped;
  await clock.advance(2 * INTERVAL);
  expect(course).toEqual(['run  a']);
});
