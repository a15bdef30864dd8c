import { describe, expect, it } from 'vitest';
import type { DlqLookup, MessageLookup } from '../../../src/status/api/lookup.ts';
import { RequestError } from '../../../src/status/lookups.ts';
import type { PageContext } from '../../../src/status/page/layout.ts';
import { entriesPage, eventsPage, messagePage } from '../../../src/status/page/lookups.ts';
import { distinct, foreignValues, unshownFacts } from '../../support/page-values.ts';
import { context as common, read, strange } from './context.ts';
import { account, hostile, LONG } from './fixtures/account.ts';
import { found } from './fixtures/lookup.ts';
import { HOSTILE, NOW } from './fixtures/overview.ts';

const context: PageContext = { ...common, root: '../../' };
const deeper: PageContext = { ...common, root: '../../../' };
const now = new Date(NOW).toISOString();
const dlq: DlqLookup = {
  ...found.dlq,
  now,
  hasMore: false,
  mayMissNewer: false,
  proven: true,
  rejected: 0,
  incomplete: 0,
};
const message: MessageLookup = { ...found.message, now };

const entries = (result: DlqLookup | RequestError, filters = {}, view = account) =>
  entriesPage({ found: result, view }, filters, context).text;
const messageOf = (result: MessageLookup | RequestError, id = 'msg_1', view = account) =>
  messagePage({ found: result, view }, id, deeper).text;

const main = (page: string) => page.replace(/^.*<main/s, '<main').replace(/<\/main>.*$/s, '</main>\n');

describe('dead-letter page', () => {
  it('the dead-letter page shows all times and numbers of each entry, and links to its message', () => {
    const view = distinct(dlq);
    const page = entries(view);
    expect(unshownFacts(page, view).filter(path => !path.endsWith('maxRetries'))).toEqual([]);
    expect(foreignValues(page, [view, account])).toEqual([]);
    expect(page).toContain('<a href="../../accounts/production/messages/msg_1">');
    expect(page).toContain('<a href="../../accounts/production">');
  });

  it('the dead-letter page describes a kind with the numbers of the last walk, and lists the other filters', () => {
    const [kind] = account.deadLetters.kinds.largest;
    const text = read(entries(dlq, { kind: kind?.id, queue: 'mail' }));
    expect(text).toContain(`Dead letters of kind ${kind?.id}`);
    expect(text).toContain('1,090 dead letters in the last complete walk');
    const kinds = { ...account.deadLetters.kinds, largest: [{ ...kind, messages: 1 }] as (typeof kind & object)[] };
    const one = { ...account, deadLetters: { ...account.deadLetters, kinds } };
    expect(read(entries(dlq, { kind: kind?.id }, one))).toContain('1 dead letter in the last');
    expect(text).toContain('queue mail');
    expect(read(entries(dlq, { kind: 'unknown' }))).not.toContain('last complete walk');
  });

  it('the dead-letter page does not claim that more rows exist if the first pages have no match', () => {
    const text = read(entries({ ...dlq, rows: [], hasMore: true }, { kind: 'unknown' }));
    expect(text).toContain('No row of the first four pages matches. Later rows may match.');
    expect(text).not.toMatch(/More rows|No entries were found/);
    expect(read(entries({ ...dlq, rows: [] }))).toContain('No entries were found.');
  });

  it('the dead-letter page reports rows that are doubtful or missing', () => {
    expect(entries(dlq)).not.toContain('class="note"');
    const text = read(entries({ ...found.dlq, rejected: 2, incomplete: 3 }));
    for (const note of [
      'More rows may exist',
      'Newer rows may be missing',
      'A filter is unproven',
      '2 unreadable rows',
      'Unreadable values missing in 3 rows',
    ])
      expect(text).toContain(note);
    expect(read(entries({ ...dlq, rows: [] }))).toContain('No entries were found.');
  });

  it('the dead-letter page shows the reason if the look-up fails', () => {
    const page = entries(new RequestError(429, 'too many', 90_000), { kind: 'x' });
    const text = read(page);
    expect(text).toContain('The look-up failed with status 429: too many . Try again in 1 min 30 s.');
    expect(foreignValues(page, account)).toEqual([]);
  });
});

describe('event page', () => {
  const events = { ...found.events, now };

  it('the event page shows state, status, time and destination of each event, and links to its message', () => {
    const page = eventsPage({ found: events, view: account }, { state: 'FAILED' }, context).text;
    expect(read(page)).toMatch(
      /state FAILED .* msg_1 error 500 .* https:\/\/api.example.com\/orders queue mail .* dial tcp: lookup api\.example\.com: no such host/,
    );
    expect(page).toContain('<a href="../../accounts/production/messages/msg_1">');
    expect(foreignValues(page, events)).toEqual([]);
  });

  it('the event page shows the reason if the look-up fails', () => {
    const failed = eventsPage({ found: new RequestError(502, 'no'), view: account }, {}, context).text;
    expect(read(failed)).toContain('The look-up failed with status 502: no');
  });
});

describe('message page', () => {
  it('the message page words the timeline as the command line does, and links to the entries of the same kind', () => {
    const page = messageOf(message);
    const text = read(page);
    for (const words of [
      'Result: failed after 1 min and 1 attempt.',
      'In the dead-letter queue since 2026-01-01 11:59:00.000, dlqId 1767268800000-0, last attempt: status 500.',
      'Failure callback: success.',
      '2026-01-01 11:59:00.000 1 min error attempt 1, status 500, took 1 min, next delivery 2026-01-01 12:05:00.000 (6 min later), error: dial tcp: lookup api.example.com: no such host',
      'flow control key key',
      'trace id 0123456789abcdef0123456789abcdef',
    ])
      expect(text).toContain(words);
    expect(page).toContain('<a href="../../../accounts/production/dlq?kind=abcdef012345">');
    expect(foreignValues(page, message)).toEqual([]);
  });

  it('the message page shows the texts of a message and its dead letter as the API returns them', () => {
    const text = read(messageOf(message));
    const { kind: _, state: _state, workflowUrl: _url, ...shown } = message.deadLetter ?? {};
    for (const [key, value] of Object.entries({ ...message, ...shown }))
      if (typeof value === 'string' && !/^(now|account|createdAt|enteredAt)$/.test(key))
        expect([key, text]).toEqual([key, expect.stringContaining(value)]);
  });

  it.each([
    ['delivered', false, 'ok'],
    ['failed', false, 'critical'],
    ['cancelled', false, 'unknown'],
    [null, false, 'unknown'],
    [null, true, 'critical'],
  ] as const)('a message with outcome %s (dead letter: %s) has the style %s', (outcome, isDead, look) => {
    const deadLetter = isDead ? message.deadLetter : null;
    expect(messageOf({ ...message, outcome, deadLetter })).toContain(`<div class="verdict ${look}">`);
  });

  it('the message page shows the reason if the look-up fails', () => {
    const page = messageOf(new RequestError(503, 'the service cannot be reached'), 'm');
    expect(read(page)).toContain('The look-up failed with status 503: the service cannot be reached');
    expect(read(messageOf(new RequestError(404, 'neither the event log'), 'other'))).toContain('not found');
  });

  it('the message page matches the golden file', async () => {
    await expect(main(messageOf(message))).toMatchFileSnapshot('golden/message.txt');
  });
});

describe('values from outside', () => {
  const [script = ''] = HOSTILE;
  const texts = [...HOSTILE, LONG, 'a\nb', '\u202etxt', '"><img src=x onerror=alert(1)>'];
  const [row] = dlq.rows;
  if (!row) throw new Error('the fixture has no row');

  it.each(texts)('values from outside are shown as text: %j', text => {
    const of = { ...row, dlqId: text, messageId: text, url: text, queue: text, labels: [text], method: text };
    const event = { ...found.events.rows[0], messageId: text, state: text, url: text, error: text };
    const pages = [
      entries({ ...dlq, rows: [of] }, { kind: text, queue: text }),
      eventsPage({ found: { ...found.events, rows: [event as never] }, view: account }, { url: text }, context).text,
      messageOf({
        ...message,
        ...Object.fromEntries(['url', 'queue', 'label'].map(key => [key, text])),
        events: message.events.map(step => ({ ...step, error: text })),
        deadLetter: of,
      }),
      messageOf(new RequestError(502, text), text, hostile),
    ];
    for (const page of pages) {
      expect(strange(page)).toEqual([]);
      expect(page).not.toMatch(/undefined|NaN|\[object/);
    }
  });

  it('look-up pages link only valid message ids', () => {
    expect(entries({ ...dlq, rows: [{ ...row, messageId: script }] })).not.toContain('/messages/');
    expect(entries({ ...dlq, rows: [{ ...row, messageId: '../../agent' }] })).not.toContain('/messages/');
  });
});
