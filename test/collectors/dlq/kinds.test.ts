import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OTHER } from '../../../src/collectors/cap.ts';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import { kindOf, shapeOf } from '../../../src/collectors/dlq/kinds.ts';
import { createRoutes } from '../../../src/collectors/routes.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';
import { runs } from '../../support/runs.ts';
import { samplesBy } from '../../support/samples.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

interface Letter {
  readonly id: string;
  readonly url: string;
  readonly status: number;
  readonly error: string;
  readonly at: number;
}

/** Creates a queue and an agent that can be killed. A kill discards uncommitted rows. */
function createScene({
  patterns = [],
  page: size = 100,
}: {
  patterns?: readonly string[];
  /** Rows per page. */
  page?: number;
} = {}) {
  const queue: Letter[] = [];
  const clock = { now: 1_700_000_000_000 };
  const service = { failsAtPage: Number.POSITIVE_INFINITY, rejected: 0 };
  let named = 0;
  async function* dlqPages({ fromDate = 0, toDate = Number.POSITIVE_INFINITY, messageId }: DlqQuery) {
    const isListed = ({ id, at }: Letter) => at >= Number(fromDate) && at <= Number(toDate) && (messageId ?? id) === id;
    const listed = queue.filter(isListed);
    for (let at = 0, page = 0; ; at += size, page += 1) {
      if (page === service.failsAtPage) throw Object.assign(new Error('away'), { reason: 'network' });
      const isLast = at + size >= listed.length;
      const rows = listed.slice(at, at + size).map(
        ({ id, url, status, error, at: time }): DlqEntry => ({
          ...({ id, dlqId: id, messageId: id, labels: [] } as unknown as DlqEntry),
          createdAt: time,
          enteredAt: time,
          url,
          responseStatus: status,
          errorClass: error,
        }),
      );
      yield { rows, rejected: isLast ? service.rejected : 0, isLast };
      if (isLast) return;
    }
  }
  const api = { dlqPages } as unknown as Reader;
  const create = (routes: readonly string[]) =>
    createDlq(dlq.options.parse({ fromDateMeans: 'entry' }), { routes: createRoutes(routes) });
  let collector = create(patterns);
  const rows = new Map<string, string>();
  let memory = collector.restore(new Map(rows));
  let facts: DlqFacts | undefined = collector.recall?.(memory);
  return {
    queue,
    clock,
    service,
    rows,
    facts: () => facts as DlqFacts,
    samples: () => samplesBy(dlq, facts as DlqFacts),
    add(letter: Partial<Letter> = {}): string {
      named += 1;
      const whole = { url: 'https://a.example/x', status: 500, error: 'e', at: clock.now, ...letter };
      queue.push({ id: `m${named}`, ...whole });
      return `m${named}`;
    },
    remove(match: (letter: Letter) => boolean) {
      for (let at = queue.length - 1; at >= 0; at -= 1) if (match(queue[at] as Letter)) queue.splice(at, 1);
    },
    /**
     * Runs a round and returns whether it completed. `killAfter`: number of committed steps before the process is killed.
     * The next step is read but not committed.
     */
    async round(name: string, killAfter = Number.POSITIVE_INFINITY): Promise<boolean> {
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      let latest = facts;
      for (let steps = 0; ; steps += 1) {
        const signal = new AbortController().signal;
        const context = { api, round: name, now: clock.now, memory, walk, signal };
        const step = await collector.observe(context).catch((error: unknown) => error);
        if (step instanceof Error) return false;
        const { fold, more, idle } = step as Awaited<ReturnType<typeof collector.observe>>;
        if (idle) return true;
        if (steps === killAfter) {
          this.restart();
          return false;
        }
        const folded = fold(memory);
        ({ memory } = folded);
        latest = folded.facts ?? latest;
        for (const { key, value } of folded.changes) {
          if (value === null) rows.delete(key);
          else rows.set(key, value);
        }
        walk = more;
        if (walk === undefined) break;
      }
      facts = latest;
      return true;
    },
    restart(routes = patterns) {
      collector = create(routes);
      memory = collector.restore(new Map(rows));
      facts = collector.recall?.(memory);
    },
  };
}

/** Returns the number of groups, and how many groups were counted as new. */
function shown(scene: ReturnType<typeof createScene>) {
  const { count, appeared } = scene.facts().kinds;
  return { count, appeared };
}

describe('groups of dead letters', () => {
  it('distinguishes groups by host, status, error class and route; without a matching route, the path shape counts', async () => {
    const scene = createScene({ patterns: ['/users/:id', '/jobs/*path'] });
    const letters: Partial<Letter>[] = [
      {},
      { url: 'https://b.example/x' },
      { url: 'https://a.example/users/1' },
      { url: 'https://a.example/orders/1/items' },
      { url: 'https://a.example/orders/v2/items' },
      { status: 502 },
      { error: 'f' },
    ];
    for (const letter of letters) scene.add(letter);
    // These URLs belong to the groups of earlier letters.
    for (const url of [
      'https://a.example/users/2?x=3',
      'https://u:p@a.example/users/mary/',
      'https://a.example/orders/7/items',
    ])
      scene.add({ url });
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: letters.length, appeared: 0 });
    const { groupMessages = [] } = scene.samples();
    expect(groupMessages.map(({ value }) => value)).toEqual([3, 2, 1, 1, 1, 1, 1]);
    expect(groupMessages[0]?.labels).toEqual({
      group: expect.stringMatching(/^[0-9a-f]{12}$/),
      url_host: 'a.example',
      response_status: '500',
    });
    expect(new Set(groupMessages.map(({ labels }) => labels.group)).size).toBe(letters.length);
    const [largest] = scene.facts().kinds.largest;
    expect(largest).toMatchObject({ route: '/users/:id', sample: 'm3', messages: 3 });
  });

  it('groups have the ids that kindOf returns for single entries', async () => {
    const patterns = ['/users/:id'];
    const scene = createScene({ patterns });
    const urls = ['https://a.example/users/1', 'https://a.example/orders/7', 'not an address'];
    for (const url of urls) scene.add({ url, status: 502, error: 'f' });
    await scene.round('full');
    const entry = { responseStatus: 502, errorClass: 'f' } as DlqEntry;
    const kinds = urls.map(url => kindOf({ ...entry, url }, createRoutes(patterns)));
    expect(
      scene
        .facts()
        .kinds.largest.map(({ id }) => id)
        .sort(),
    ).toEqual(kinds.sort());
  });

  it('assigns the same id to a group regardless of other groups', async () => {
    const [one, other] = [createScene(), createScene()];
    other.add({ error: 'another' });
    for (const { add } of [one, other]) add();
    const ids = async (scene: typeof one) => {
      await scene.round('full');
      return scene.facts().kinds.largest.map(({ id }) => id);
    };
    expect(await ids(other)).toContain((await ids(one))[0]);
  });

  it('counts a group as new when it first appears after the first walk', async () => {
    const scene = createScene();
    scene.add();
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 1, appeared: 0 });
    scene.clock.now += HOUR;
    scene.add({ status: 404 });
    scene.add();
    await scene.round('new');
    expect(shown(scene)).toEqual({ count: 2, appeared: 1 });
    await scene.round('full');
    scene.restart();
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 2, appeared: 1 });
  });

  it('counts no group as new in a failed or partial walk', async () => {
    const scene = createScene({ page: 3 });
    for (let number = 0; number < 7; number += 1) scene.add({ status: 400 + number });
    await scene.round('full');
    const before = new Map(scene.rows);
    scene.clock.now += HOUR;
    scene.remove(({ status }) => status === 400);
    scene.add({ status: 500 });
    scene.service.failsAtPage = 2;
    expect(await scene.round('full')).toBe(false);
    expect(scene.rows).toEqual(before);
    scene.service.failsAtPage = Number.POSITIVE_INFINITY;
    scene.service.rejected = 1;
    await scene.round('full');
    expect(shown(scene)).toMatchObject({ appeared: 0 });
    expect([...scene.rows].filter(([key]) => key.startsWith('groups'))).toEqual(
      [...before].filter(([key]) => key.startsWith('groups')),
    );
    scene.service.rejected = 0;
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 7, appeared: 1 });
  });

  it('does not count groups as new when the routes change', async () => {
    const scene = createScene();
    scene.add({ url: 'https://a.example/users/1' });
    await scene.round('full');
    scene.add({ status: 404 });
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 2, appeared: 1 });
    scene.restart(['/users/:id']);
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 2, appeared: 1 });
    expect([...scene.rows.keys()].filter(key => key.startsWith('groups/'))).toHaveLength(2);
  });

  it('exposes the 50 largest groups and a remainder, which add up to the size of the queue', async () => {
    const scene = createScene();
    for (let kind = 0; kind < 70; kind += 1) {
      for (let count = 0; count <= kind % 60; count += 1) scene.add({ status: 100 + kind });
    }
    scene.service.rejected = 2;
    await scene.round('full');
    const { groupMessages = [], messages = [], seriesDropped = [], groups } = scene.samples();
    expect(groups).toEqual([{ labels: {}, value: 70 }]);
    expect(groupMessages).toHaveLength(51);
    expect(groupMessages.at(-1)?.labels).toEqual({ group: OTHER, url_host: OTHER, response_status: OTHER });
    expect(groupMessages.reduce((sum, { value }) => sum + value, 0)).toBe(messages[0]?.value);
    expect(seriesDropped).toContainEqual({ labels: { family: 'delivery_dlq_group_messages' }, value: 20 });
  });

  it('tracks at most 2,000 groups', async () => {
    const scene = createScene();
    for (let kind = 0; kind < 2100; kind += 1) scene.add({ error: `e${kind}` });
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 2000, appeared: 0 });
    const { groupMessages = [], messages = [] } = scene.samples();
    expect(groupMessages.reduce((sum, { value }) => sum + value, 0)).toBe(messages[0]?.value);
    // Now other groups are listed first.
    scene.queue.reverse();
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 2000, appeared: 100 });
    scene.clock.now += 2 * DAY;
    scene.queue.reverse();
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 2000, appeared: 100 });
  });

  it('stores at most 10,000 groups and evicts the least recently seen groups first', async () => {
    const scene = createScene();
    await scene.round('full');
    for (let batch = 0; batch < 6; batch += 1) {
      scene.clock.now += HOUR;
      scene.remove(() => true);
      for (let kind = 0; kind < 1990; kind += 1) scene.add({ error: `${batch} ${kind}` });
      await scene.round('full');
    }
    expect(shown(scene).appeared).toBe(6 * 1990);
    expect([...scene.rows.keys()].filter(key => key.startsWith('groups/'))).toHaveLength(10_000);
    scene.restart();
    scene.clock.now += DAY;
    scene.add({ error: '4 7' });
    scene.add({ error: '0 7' });
    await scene.round('full');
    expect(shown(scene)).toEqual({ count: 1992, appeared: 6 * 1990 + 1 });
  });

  it('limits the length of addresses and ids from a hostile service', async () => {
    const scene = createScene();
    scene.add({ url: `https://${'a.'.repeat(5000)}example/${'x/'.repeat(5000)}` });
    scene.add({ url: 'no address' });
    scene.add({ url: `data:text/plain,${'y'.repeat(5000)}` });
    scene.queue.push({ ...(scene.queue[0] as Letter), id: 'z'.repeat(5000), status: 1e300 });
    await scene.round('full');
    for (const { urlHost, route, responseStatus, sample = '' } of scene.facts().kinds.largest) {
      for (const text of [urlHost, route, responseStatus]) expect(text.length).toBeLessThanOrEqual(200);
      expect(sample.length).toBeLessThanOrEqual(512);
    }
  });
});

it.each([
  ['/users/7/orders', '/users/*/orders'],
  ['/v1/send', '/v1/send'],
  ['/', '/'],
  ['/hooks/6f1c2a7e-7b1d-4c39-9d55-2f3f1e0a9c11/', '/hooks/*/'],
  [`/${'x'.repeat(41)}`, '/*'],
])('reduces the path %s to the shape %s', (path, shape) => expect(shapeOf(path)).toBe(shape));

it('counts groups like a reference model that evaluates every complete walk, despite failures and kills', {
  timeout: 120_000,
}, async () => {
  const kind = fc.record({ status: fc.constantFrom(404, 500), error: fc.constantFrom('a', 'b', 'c') });
  const act = fc.oneof(
    { weight: 4, arbitrary: fc.record({ add: kind }) },
    { weight: 2, arbitrary: fc.record({ remove: kind }) },
    { weight: 3, arbitrary: fc.record({ wait: fc.constantFrom(HOUR, DAY / 2, DAY) }) },
    { weight: 4, arbitrary: fc.record({ walk: fc.constantFrom('full', 'full', 'new') }) },
    { weight: 1, arbitrary: fc.record({ fail: fc.nat(3) }) },
    { weight: 1, arbitrary: fc.record({ kill: fc.nat(4) }) },
    { weight: 1, arbitrary: fc.record({ restart: fc.constant(true) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 60 }), async acts => {
      const scene = createScene({ page: 20 });
      // More than one page, so that a round for new entries is not a complete walk.
      for (let number = 0; number < 101; number += 1) scene.add({ status: 410 });
      const seen = new Set<string>();
      const model = { appeared: 0, isFirst: true };
      const nameOf = ({ status, error }: { status: number; error: string }) => `${status} ${error}`;
      function compare(): void {
        for (const name of new Set(scene.queue.map(nameOf))) {
          if (!seen.has(name) && !model.isFirst) model.appeared += 1;
          seen.add(name);
        }
        model.isFirst = false;
      }
      let hasWalked = false;
      for (const act of acts) {
        scene.clock.now += 1000;
        if ('add' in act) scene.add(act.add);
        if ('remove' in act) {
          const { status, error } = act.remove;
          scene.remove(each => each.status === status && each.error === error);
        }
        if ('wait' in act) scene.clock.now += act.wait;
        if ('walk' in act && (act.walk === 'full' || hasWalked)) {
          expect(await scene.round(act.walk)).toBe(true);
          compare();
          hasWalked = true;
        }
        if ('fail' in act) {
          scene.service.failsAtPage = act.fail;
          expect(await scene.round('full')).toBe(false);
          scene.service.failsAtPage = Number.POSITIVE_INFINITY;
        }
        if ('kill' in act) {
          expect(await scene.round('full', act.kill)).toBe(false);
          hasWalked = false;
        }
        if ('restart' in act) {
          scene.restart();
          hasWalked = false;
        }
        expect(scene.facts().kinds.appeared).toBe(model.appeared);
      }
      await scene.round('full');
      const counts = Map.groupBy(scene.queue, nameOf);
      expect(scene.facts().kinds.count).toBe(counts.size);
      const sizes = scene.facts().kinds.largest.map(({ messages }) => messages);
      expect(sizes).toEqual([...counts.values()].map(({ length }) => length).sort((a, b) => b - a));
    }),
    { numRuns: runs(100) },
  );
});
