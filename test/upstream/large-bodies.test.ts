import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { createLargeBodies, LARGE } from '../../src/upstream/large-bodies.ts';
import { createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';
import { settle } from '../support/manual-clock.ts';

const signal = () => new AbortController().signal;

it('lets four at a time be large, in the order in which they ask', async () => {
  const largeBodies = createLargeBodies();
  const turns = Array.from({ length: 7 }, () => largeBodies.turn());
  const taken: number[] = [];
  const taking = turns.map(async (turn, index) => {
    await turn.take(signal());
    taken.push(index);
  });
  await settle();
  expect(taken).toEqual([0, 1, 2, 3]);
  turns[1]?.end();
  // Ending twice frees nothing that is not there.
  turns[1]?.end();
  await settle();
  expect(taken).toEqual([0, 1, 2, 3, 4]);
  // Who has a turn already takes no other.
  await turns[4]?.take(signal());
  for (const turn of turns) turn.end();
  await settle();
  // One that ended while it waited still gets its turn, for it is still waited for.
  expect(taken).toEqual([0, 1, 2, 3, 4, 5, 6]);
  await Promise.all(taking);
});

it('takes one place for one answer, however often it asks', async () => {
  const largeBodies = createLargeBodies();
  const held = Array.from({ length: 4 }, () => largeBodies.turn());
  await Promise.all(held.flatMap(turn => (turn === held[3] ? [] : [turn.take(signal()), turn.take(signal())])));
  await held[3]?.take(signal());
});

it('gets back the place of one that ended while it waited', async () => {
  const largeBodies = createLargeBodies();
  const held = Array.from({ length: 4 }, () => largeBodies.turn());
  for (const turn of held) await turn.take(signal());
  const ended = largeBodies.turn();
  const waited = ended.take(signal());
  ended.end();
  for (const turn of held) turn.end();
  await waited;
  await Promise.all(held.map(() => largeBodies.turn().take(signal())));
});

it('gives no turn to one that has stopped waiting', async () => {
  const largeBodies = createLargeBodies();
  const held = Array.from({ length: 4 }, () => largeBodies.turn());
  for (const turn of held) await turn.take(signal());
  const stop = new AbortController();
  const gone = largeBodies.turn();
  const stopped = gone.take(stop.signal);
  stop.abort(new Error('stopping'));
  await expect(stopped).rejects.toThrow('stopping');
  await expect(largeBodies.turn().take(stop.signal)).rejects.toThrow('stopping');
  gone.end();
  let isNext = false;
  const next = largeBodies.turn();
  const taking = next.take(signal()).then(() => {
    isNext = true;
  });
  await settle();
  expect(isNext).toBe(false);
  held[0]?.end();
  await taking;
});

it.each(['identity', 'gzip'])(
  'large answers (%s) wait for one another, whatever their accounts; others for none',
  async encoding => {
    const text = JSON.stringify({ messages: [{ dlqId: '1-0', body: 'x'.repeat(LARGE) }] });
    const body = encoding === 'gzip' ? gzipSync(text) : Buffer.from(text);
    const service = await serve((request, response) => {
      if (request.url?.startsWith('/v2/events')) json(response, { events: [] });
      else if (request.url?.includes('damaged')) response.end(Buffer.alloc(LARGE + 1, ' '));
      else response.writeHead(200, { 'content-encoding': encoding }).end(body);
    });
    const largeBodies = createLargeBodies();
    const held = Array.from({ length: 4 }, () => largeBodies.turn());
    for (const turn of held) await turn.take(signal());
    const [one, two] = [createTestClient(service.url, { largeBodies }), createTestClient(service.url, { largeBodies })];
    let answered = 0;
    const large = [one, two].map(async ({ reader }) => {
      const page = await reader.dlqPages({}, signal()).next();
      answered += 1;
      return page.value?.rows.length;
    });
    expect((await one.reader.eventPages({}, signal()).next()).value).toMatchObject({ rows: [] });
    expect(answered).toBe(0);
    // One turn is enough for both, one after the other: it comes back when an answer is read.
    held[0]?.end();
    expect(await Promise.all(large)).toEqual([1, 1]);
    // It also comes back from one that fails.
    await expect(one.reader.dlqPages({ label: 'damaged' }, signal()).next()).rejects.toMatchObject({
      reason: 'invalid_response',
    });
    expect((await one.reader.dlqPages({}, signal()).next()).value).toMatchObject({ isLast: true });
  },
);

it.each(['identity', 'gzip'])('a large answer (%s) that never gets its turn ends with its timeout', async encoding => {
  const text = JSON.stringify({ messages: [], rest: 'x'.repeat(LARGE) });
  const body = encoding === 'gzip' ? gzipSync(text) : Buffer.from(text);
  const service = await serve(
    (_request, response) => void response.writeHead(200, { 'content-encoding': encoding }).end(body),
  );
  const largeBodies = createLargeBodies();
  for (let held = 0; held < 4; held += 1) await largeBodies.turn().take(signal());
  const { reader } = createTestClient(service.url, { largeBodies, timeout: 300 });
  await expect(reader.dlqPages({}, signal()).next()).rejects.toMatchObject({ reason: 'timeout' });
});
