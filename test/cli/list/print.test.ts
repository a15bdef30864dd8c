import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createPrinter, lineWidth, type PrintedRow, type PrintOptions } from '../../../src/cli/list.ts';
import { SCHEDULE_LIST } from '../../../src/lookup/lists.ts';

const JSON_ROW = {
  account: 'production',
  dlqId: '1763650000000-7',
  messageId: 'msg_w1w6mz510638o8r1wcupuh',
  enteredAt: '2026-11-20T14:46:40.000Z',
  url: 'https://api.example.com/a/long/path/of/orders/that/does/not/fit?…',
  responseStatus: 503,
  queue: 'payments',
  labels: ['nightly', 'eu'],
  callbackState: 'in_progress',
};
const ROW: PrintedRow = { id: JSON_ROW.dlqId, json: JSON_ROW };

async function printed(rows: readonly PrintedRow[], options: Partial<PrintOptions> = {}) {
  const out = new PassThrough();
  const print = createPrinter('dlq', { format: 'table', width: 120, withAccount: false, ...options }, out);
  await print(rows);
  return String(out.read() ?? '');
}

describe('a table', () => {
  it.each([80, 120, 200])('a table fits into %i columns without truncating ids', async width => {
    const text = await printed([ROW], { width });
    const lines = text.trimEnd().split('\n');
    expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(width);
    expect(text).toContain(JSON_ROW.messageId);
    expect(text).toContain('503');
    expect(text).toContain('api.example.com');
  });

  it('a table of unlimited width shows every column that has a value', async () => {
    expect(await printed([ROW], { width: undefined, withAccount: true })).toBe(
      [
        'account     entered (UTC)        status  message                     url                                                        dlq id           callback     queue     labels',
        'production  2026-11-20 14:46:40     503  msg_w1w6mz510638o8r1wcupuh  api.example.com/a/long/path/of/orders/that/does/not/fit?…  1763650000000-7  in_progress  payments  nightly, eu',
        '',
      ].join('\n'),
    );
  });

  it('a table without rows has no header', async () => {
    expect(await printed([])).toBe('');
  });

  it('a table shows the creation time in a separate column, and a dash for an unknown entry time', async () => {
    const old = { messageId: 'msg_123', createdAt: '2021-05-03T00:00:00.000Z', url: 'https://example.com' };
    expect(await printed([{ id: '1', json: old }])).toBe(
      [
        'entered (UTC)  message  url          created (UTC)',
        '–              msg_123  example.com  2021-05-03 00:00:00',
        '',
      ].join('\n'),
    );
    const known = await printed([ROW, { id: '1', json: old }], { width: undefined });
    expect(known).toMatch(/\n2026-11-20 14:46:40 .*\n– .* 2021-05-03 00:00:00/);
  });

  it('a table of keys shows which limits are pinned', async () => {
    const out = new PassThrough();
    const print = createPrinter('keys', { format: 'table', width: 120, withAccount: false }, out);
    const limits = { waitlistSize: 114, parallelismInUse: 38, parallelismLimit: 200 };
    await print([
      { id: 'a', json: { key: 'fal-requests-2', ...limits, pinned: ['parallelism'] } },
      { id: 'b', json: { key: 'llm-requests', waitlistSize: 0, pinned: [] } },
    ]);
    expect(String(out.read())).toBe(
      [
        'waiting  key             in use  parallelism  pinned',
        '    114  fal-requests-2      38          200  parallelism',
        '      0  llm-requests',
        '',
      ].join('\n'),
    );
  });

  it('a table of schedules shows the columns time zone and topic if at least one row has a value', async () => {
    const out = new PassThrough();
    const print = createPrinter('schedules', { format: 'table', width: 160, withAccount: false }, out);
    const listed = [
      {
        scheduleId: 'nightly',
        cron: '0 4 * * *',
        tz: 'America/New_York',
        destination: 'mail-group',
        paused: true,
        lastRunAt: Date.UTC(2026, 2, 14, 8),
        labels: [],
      },
      { scheduleId: 'scd_2', destination: 'https://user:secret@api.example.com/run?key=secret', labels: [] },
    ];
    await print(listed.map(row => ({ id: row.scheduleId, json: { ...SCHEDULE_LIST.json(row) } })));
    expect(String(out.read())).toBe(
      [
        'last run (UTC)       state   schedule  cron       time zone         url                    topic',
        '2026-03-14 08:00:00  paused  nightly   0 4 * * *  America/New_York                         mail-group',
        '                             scd_2                                  api.example.com/run?…',
        '',
      ].join('\n'),
    );
  });

  it('a table of queues shows the number of waiting messages and whether a queue is paused', async () => {
    const out = new PassThrough();
    const print = createPrinter('queues', { format: 'table', width: 120, withAccount: false }, out);
    const json = { name: 'mail', lag: 114, paused: true, parallelismLimit: 2, updatedAt: '2026-01-01T10:00:00.000Z' };
    await print([
      { id: 'mail', json },
      { id: 'reports', json: { name: 'reports', lag: 0 } },
    ]);
    expect(String(out.read())).toBe(
      [
        'waiting  paused  queue    parallelism  updated (UTC)',
        '    114  true    mail               2  2026-01-01 10:00:00',
        '      0          reports',
        '',
      ].join('\n'),
    );
  });

  it('a table of events shortens errors, but not ids, to fit its width', async () => {
    const out = new PassThrough();
    const print = createPrinter('events', { format: 'table', width: 80, withAccount: false }, out);
    const error = 'dial tcp: lookup app.example.com on 10.0.0.2:53: no such host';
    const { messageId } = JSON_ROW;
    await print([{ id: messageId, json: { state: 'error', messageId, url: 'https://a.example', error } }]);
    const [, line = ''] = String(out.read()).split('\n');
    expect(line).toHaveLength(80);
    expect(line).toMatch(/^error {2}msg_w1w6mz510638o8r1wcupuh {2}a\.example {2}dial tcp: .*…$/);
  });

  it('a table replaces control characters in rows', async () => {
    const row = { id: '1', json: { ...JSON_ROW, queue: 'a\u001b[2J\nb' } };
    expect(await printed([row], { width: undefined })).toContain('a\u{fffd}[2J\u{fffd}b');
  });

  it('a table keeps the columns of the first rows for later rows', async () => {
    const out = new PassThrough();
    const print = createPrinter('dlq', { format: 'table', width: 80, withAccount: false }, out);
    await print([ROW]);
    await print([ROW, ROW]);
    const [head, ...lines] = String(out.read()).trimEnd().split('\n');
    expect(head).toMatch(/^entered/);
    expect(new Set(lines).size).toBe(1);
    expect(lines).toHaveLength(3);
  });
});

it('the format json prints one JSON object per line', async () => {
  const lines = (await printed([ROW, ROW], { format: 'json' })).trimEnd().split('\n');
  expect(lines.map(line => JSON.parse(line))).toEqual([JSON_ROW, JSON_ROW]);
});

it('the ids format prints only ids and skips rows without an id', async () => {
  expect(await printed([ROW, { ...ROW, id: undefined }], { format: 'ids' })).toBe('1763650000000-7\n');
});

it('printing completes only when the output stream has drained', async () => {
  const out = new PassThrough({ highWaterMark: 1 });
  const print = createPrinter('dlq', { format: 'ids', width: 80, withAccount: false }, out);
  let isPrinted = false;
  const printing = print([ROW]).then(() => {
    isPrinted = true;
  });
  await Promise.resolve();
  expect(isPrinted).toBe(false);
  out.resume();
  await printing;
});

it.each([
  [80, undefined, 80],
  [80, '40', 80],
  [0, undefined, 120],
  [0, '40', 40],
  [undefined, '40', 40],
  [undefined, '0', 120],
  [undefined, '-5', 120],
  [undefined, 'abc', 120],
])('on a terminal of %s columns with COLUMNS=%s, tables are %s columns wide', (columns, setting, width) =>
  expect(lineWidth(columns, setting)).toBe(width),
);
