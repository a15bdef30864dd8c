/**
 * Serves three accounts with large responses from a separate process: `/many`, `/bodies` and `/most`; all others are empty.
 * Sends its port to its parent.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const MIB = 1024 * 1024;
/** Number of dead letters in `/bodies`. */
const ENTRIES = 200;

/** Creates two lists of `count` keys with different waitlist sizes. */
const lists = (count: number) =>
  [1, 2].map(factor =>
    Buffer.from(
      JSON.stringify(
        Array.from({ length: count }, (_, index) => ({
          flowControlKey: `tenant-${index}.payments`,
          waitListSize: (index * factor) % 977,
          rateMax: 10,
          rateCount: index % 10,
          ratePeriod: 60,
        })),
      ),
    ),
  );

/** A payload as applications send it: JSON within JSON. */
const payload = JSON.stringify(
  JSON.stringify({ order: 'b7a1', lines: [{ sku: 'x-17', name: 'caf\u00e9' }] }).repeat(20_000),
).slice(0, MIB);
const body = `${payload.slice(0, payload.lastIndexOf('{') - 1)}"`;
const START = Date.now() - 3_600_000;

function bodies(query: URLSearchParams): Buffer[] {
  const from = Number(query.get('cursor') ?? 0);
  const count = Math.min(Number(query.get('count') ?? 100), ENTRIES - from);
  const rows = Array.from({ length: count }, (_, at) => {
    const index = from + at;
    const row = {
      dlqId: `${START + index * 1000}-0`,
      messageId: `msg_${index}`,
      url: `https://tenant-${index % 7}.example.com/`,
      createdAt: START,
      responseStatus: 500,
    };
    return Buffer.from(`${at === 0 ? '' : ','}${JSON.stringify(row).slice(0, -1)},"body":${body}}`);
  });
  const cursor = from + count < ENTRIES ? `"cursor":"${from + count}",` : '';
  return [Buffer.from(`{${cursor}"messages":[`), ...rows, Buffer.from(']}')];
}

const many = lists(100_000);
const most = lists(160_000);
let turn = 0;
const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
  const [, account = '', , list = ''] = pathname.split('/');
  turn += 1;
  const keys =
    list === 'flowControl'
      ? new Map([
          ['many', many],
          ['most', most],
        ]).get(account)
      : undefined;
  if (keys) response.end(keys[turn % 2]);
  else if (list === 'dlq' && account === 'bodies') {
    for (const piece of bodies(searchParams)) response.write(piece);
    response.end();
  } else response.end('{}');
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit());
