import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OTHER } from '../../../src/collectors/cap.ts';
import {
  createDestinations,
  DESTINATIONS,
  destinationReader,
  type StoredTally,
} from '../../../src/collectors/events/destinations.ts';
import { events } from '../../../src/collectors/events/events.ts';
import { createDestinationTally } from '../../../src/collectors/events/tally.ts';
import { createRoutes, NO_ROUTES, UNMATCHED } from '../../../src/collectors/routes.ts';
import type { DeliveryEvent } from '../../../src/model/message.ts';
import { runs } from '../../support/runs.ts';
import { samplesBy } from '../../support/samples.ts';
import { counted, createAgent, createLog, HOUR, SECOND } from './fake-log.ts';

const WHOLE = ['created', 'active', 'delivered'];
const DAY = 24 * HOUR;

type Destinations = ReturnType<typeof createDestinations>;

/** Counts one event and returns the total of each exposed destination. */
function count(destinations: Destinations, name: string, time: number): Record<string, number> {
  destinations.of(name, time).tally.events.created += 1;
  return shown(destinations);
}

const shown = (destinations: Destinations) =>
  Object.fromEntries([...destinations.copies()].map(([name, { events }]) => [name, events.created]));

/** Returns destinations restored from the stored tallies of `names`, as after a restart. */
function restarted(destinations: Destinations, most: number, names: readonly string[]): Destinations {
  const stored = names.flatMap((name): [string, StoredTally][] => {
    const tally = destinations.stored(name);
    return tally ? [[name, structuredClone(tally)]] : [];
  });
  return createDestinations('host', most, new Map(stored));
}

describe('destination names', () => {
  const event = (fields: Partial<DeliveryEvent>): DeliveryEvent => ({
    messageId: 'msg_1',
    state: 'created',
    time: 0,
    ...fields,
  });

  it.each([
    ['https://a.example/hook?x=1', 'a.example'],
    ['https://a.example', 'a.example'],
    ['https://A.Example:443/', 'a.example'],
    ['http://a.example:8080/hook', 'a.example:8080'],
    ['https://user:secret@a.example/', 'a.example'],
    ['https://user:secret@a.example:99/@b.example/', 'a.example:99'],
    ['https://a.example\\@b.example/', 'a.example'],
    ['https://a.example#b', 'a.example'],
    ['https://bücher.example/', 'xn--bcher-kva.example'],
    ['https://127.0.0.1/', '127.0.0.1'],
    ['https://0x7f.1/', '127.0.0.1'],
    ['https://[::1]:80/', '[::1]:80'],
    ['no address', ''],
    ['', ''],
  ])('the name of a destination is the host of %j', (url, host) =>
    expect(destinationReader('host', NO_ROUTES)(event({ url }))).toBe(host),
  );

  it('the name of a destination is its host, regardless of earlier addresses', () => {
    const part = fc.constantFrom('a.example', 'b.example', 'a', '/', '//', '\\', '?', '#', '@', ':', ':80', '.', '\t');
    const scheme = fc.constantFrom('https://', 'http://', 'https:/', 'http:', 'ftp://', '');
    const url = fc.tuple(scheme, fc.array(part, { maxLength: 5 })).map(([begin, rest]) => begin + rest.join(''));
    fc.assert(
      fc.property(fc.array(url, { minLength: 2, maxLength: 8 }), urls => {
        const read = destinationReader('host', NO_ROUTES);
        for (const url of urls) expect(read(event({ url }))).toBe(URL.parse(url)?.host ?? '');
      }),
      { numRuns: runs(1000) },
    );
  });

  it('the name of a destination comes from the configured field, and is empty if the event lacks it', () => {
    const workflowUrl = 'https://user:secret@w.example/flow?token=x#y';
    const names = { topic: 'orders', queue: 'slow', labels: ['blue', 'red'], schedule: 'scd_1', workflowUrl };
    const whole = event({ url: 'https://a.example/users/7', ...names });
    const routes = createRoutes(['/users/:id']);
    const read = (of: DeliveryEvent) =>
      Object.fromEntries(DESTINATIONS.map(option => [option, destinationReader(option, routes)(of)]));
    expect(read(whole)).toEqual({
      none: '',
      host: 'a.example',
      route: '/users/:id',
      workflowUrl: 'https://w.example/flow',
      topic: 'orders',
      queue: 'slow',
      label: 'blue',
      schedule: 'scd_1',
    });
    expect(new Set(Object.values(read(event({}))))).toEqual(new Set(['']));
    expect(destinationReader('route', routes)(event({ url: 'https://a.example/' }))).toBe(UNMATCHED);
  });

  it.each(['javascript:alert(1)', 'https://', 'a secret?', `data:${'x'.repeat(5000)}`, 'https://w.example/%40x'])(
    'the name of a destination shows an ellipsis instead of unsafe parts of the workflow address %j',
    workflowUrl => {
      const name = destinationReader('workflowUrl', NO_ROUTES)(event({ workflowUrl }));
      expect(name).toMatch(/^(https:\/\/w\.example\/)?…$/);
    },
  );

  it('names of destinations have at most 200 characters and stay distinct', () => {
    const read = destinationReader('topic', NO_ROUTES);
    const names = ['a', 'b'].map(end => read(event({ topic: `${'x'.repeat(5000)}${end}` })));
    expect(names.map(({ length }) => length)).toEqual([200, 200]);
    expect(new Set(names).size).toBe(2);
  });
});

describe('limit on destinations', () => {
  it('the first destinations have their own series, and the others share the remainder', () => {
    const destinations = createDestinations('host', 2, new Map());
    for (const name of ['a', 'b', 'c', 'd', 'c', 'a']) count(destinations, name, 1);
    expect(shown(destinations)).toEqual({ a: 2, b: 1, [OTHER]: 3 });
    expect(destinations.beyond).toBe(2);
  });

  it('a destination named like the remainder does not count towards the limit', () => {
    const destinations = createDestinations('host', 2, new Map());
    for (const name of [OTHER, 'a', 'b', OTHER, 'c']) count(destinations, name, 1);
    expect(shown(destinations)).toEqual({ [OTHER]: 3, a: 1, b: 1 });
  });

  it('destinations that are idle for a day are replaced by new ones, the longest idle first', () => {
    const destinations = createDestinations('host', 3, new Map());
    for (const [hour, name] of ['a', 'b', 'c'].entries()) count(destinations, name, hour * HOUR);
    expect(count(destinations, 'early', DAY - 1)).toEqual({ a: 1, b: 1, c: 1, [OTHER]: 1 });
    expect(count(destinations, 'd', DAY + 90 * 60_000)).toEqual({ b: 1, c: 1, [OTHER]: 1, d: 1 });
    expect(count(destinations, 'e', 3 * DAY)).toEqual({ c: 1, [OTHER]: 1, d: 1, e: 1 });
    expect(count(destinations, 'f', 3 * DAY)).toEqual({ [OTHER]: 1, d: 1, e: 1, f: 1 });
    expect(count(destinations, 'g', 3 * DAY)).toEqual({ [OTHER]: 1, e: 1, f: 1, g: 1 });
    expect(count(destinations, 'h', 3 * DAY)).toEqual({ [OTHER]: 2, e: 1, f: 1, g: 1 });
  });

  it('a destination that returns resumes its stored total', () => {
    const destinations = createDestinations('host', 1, new Map());
    for (const name of ['a', 'a', 'b']) count(destinations, name, 0);
    expect(count(destinations, 'b', 2 * DAY)).toEqual({ b: 1, [OTHER]: 1 });
    expect(count(destinations, 'a', 4 * DAY)).toEqual({ a: 3, [OTHER]: 1 });
    const again = restarted(destinations, 1, ['a', 'b', OTHER]);
    expect(shown(again)).toEqual({ a: 3, [OTHER]: 1 });
    expect(count(again, 'b', 6 * DAY)).toEqual({ b: 2, [OTHER]: 1 });
  });

  it('totals of destinations never decrease and, with the remainder, add up to all events', () => {
    const names = ['a', 'b', 'c', 'd', 'e', OTHER, ''];
    const act = fc.record({
      name: fc.constantFrom(...names),
      wait: fc.constantFrom(0, 1000, HOUR, 11 * HOUR, DAY),
      most: fc.option(fc.integer({ min: 1, max: 4 }), { freq: 8 }),
    });
    fc.assert(
      fc.property(fc.array(act, { maxLength: 80 }), acts => {
        let destinations = createDestinations('host', 2, new Map());
        const highest: Record<string, number> = {};
        let cap = 2;
        let time = 0;
        for (const { name, wait, most } of acts) {
          time += wait;
          if (most !== null) {
            cap = most;
            destinations = restarted(destinations, cap, names);
          }
          const after = count(destinations, name, time);
          for (const [name, total] of Object.entries(after)) {
            expect(total).toBeGreaterThanOrEqual(highest[name] ?? 0);
            highest[name] = total;
          }
          expect(Object.keys(after).filter(name => name !== OTHER).length).toBeLessThanOrEqual(cap);
        }
        expect(Object.values(highest).reduce((a, b) => a + b, 0)).toBe(acts.length);
      }),
      { numRuns: runs(500) },
    );
  });

  it('shown totals of destinations are copies, which are reused while the totals are unchanged', () => {
    const destinations = createDestinations('host', 2, new Map());
    destinations.of('a', 1).tally.events.created += 1;
    const before = destinations.copies();
    destinations.of('a', 2).tally.events.created += 1;
    expect(before.get('a')?.events.created).toBe(1);
    expect(destinations.copies().get('a')).not.toBe(before.get('a'));
    expect(destinations.copies().get('a')).toBe(destinations.copies().get('a'));
  });

  it('keeps a single total without a destination, starting at 0, if the option is off', () => {
    const destinations = createDestinations('none', 1, new Map());
    expect([...destinations.copies()]).toEqual([['', createDestinationTally()]]);
  });
});

describe('changes of the option destination', () => {
  const labelsOf = (agent: ReturnType<typeof createAgent>) => {
    const { total = [], finished = [] } = samplesBy(events, agent.shown());
    return [...total, ...finished].map(({ labels }) => JSON.stringify(labels));
  };

  /** Creates an agent that has counted a message to a topic and a host, and will read the message's events again. */
  async function createCounted(destination: string) {
    const service = createLog();
    const agent = createAgent(service, { destination });
    await agent.round('tail');
    service.add('msg_1', WHOLE, service.clock.now + SECOND, { url: 'https://a.example/', topic: 'orders' });
    await agent.run(1);
    return { ...service, agent };
  }

  it.each([
    ['host', 'none'],
    ['none', 'host'],
    ['topic', 'host'],
    ['host', 'topic'],
  ])('no old names or duplicate series appear when the option changes from %s to %s', async (from, to) => {
    const { agent, clock, add } = await createCounted(from);
    const before = [...agent.shown().destinations.keys()].filter(name => name !== OTHER);
    agent.reconfigure({ destination: to });
    await agent.run(20);
    add('msg_2', WHOLE, clock.now + SECOND, { url: 'https://a.example/', topic: 'orders' });
    await agent.run(20);
    agent.kill();
    await agent.run(1);
    const names = [...agent.shown().destinations.keys()];
    expect(before.filter(name => name !== '' && names.includes(name))).toEqual([]);
    expect(new Set(labelsOf(agent)).size).toBe(labelsOf(agent).length);
    expect(counted(agent.shown())).toBe(3);
  });

  it('the remainder is exposed at 0 before the first event of a new store', async () => {
    const agent = createAgent(createLog(), { destination: 'host' });
    await agent.round('tail');
    const zero = { labels: { outcome: 'failed', destination: OTHER }, value: 0 };
    expect(samplesBy(events, agent.shown()).finished).toContainEqual(expect.objectContaining(zero));
  });

  it('the totals of destinations resume when the option is set back to an earlier value', async () => {
    const { agent, clock, add } = await createCounted('host');
    await agent.run(20);
    agent.reconfigure({ destination: 'none' });
    await agent.run(1);
    agent.reconfigure({ destination: 'host' });
    add('msg_2', WHOLE, clock.now + SECOND, { url: 'https://a.example/' });
    await agent.run(1);
    expect(agent.shown().destinations.get('a.example')?.events.created).toBe(2);
  });

  it('reports the number of destinations over the limit', async () => {
    const service = createLog();
    const agent = createAgent(service, { destination: 'host', maxDestinations: 2 });
    await agent.round('tail');
    for (let number = 0; number < 5; number += 1) {
      service.add(`msg_${number}`, WHOLE, service.clock.now + SECOND, { url: `https://host-${number}.example/` });
    }
    await agent.run(10);
    const { destinations } = agent.shown();
    expect([...destinations.keys()]).toContain(OTHER);
    expect(destinations.get(OTHER)).toMatchObject({ events: { created: 3 }, finished: { delivered: 3 } });
    const family = 'delivery_events_total';
    expect(samplesBy(events, agent.shown()).seriesDropped).toEqual([{ labels: { family }, value: 3 }]);
  });
});

it('limits the number of stored destination rows', async () => {
  const service = createLog();
  const agent = createAgent(service, { destination: 'host', maxDestinations: 5 });
  await agent.round('tail');
  for (let day = 0; day < 120; day += 1) {
    service.clock.now += 25 * HOUR;
    for (let n = 0; n < 5; n += 1)
      service.add(`m${day}-${n}`, ['retry'], service.clock.now - 1, { url: `https://h${day}-${n}.example/` });
    await agent.run(1, 0);
  }
  expect(agent.rowsOf('destination').length).toBeLessThan(200);
});
