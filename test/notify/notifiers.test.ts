import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { fingerprintOf, type Notice } from '../../src/notify/notice.ts';
import { createAlertmanager } from '../../src/notify/notifiers/alertmanager.ts';
import type { Receiver } from '../../src/notify/notifiers/receiver.ts';
import { createWebhook } from '../../src/notify/notifiers/webhook.ts';
import { createPost } from '../../src/upstream/post.ts';
import { afterThisTest } from '../support/client.ts';
import { startHttpService } from '../support/http-service.ts';

const NOW = Date.UTC(2026, 5, 1, 12);
const never = new AbortController().signal;

const firing: Notice = {
  status: 'firing',
  labels: { alertname: 'DlqGrowing', account: 'production', severity: 'warning' },
  annotations: { summary: 'It grows.' },
  startsAt: NOW - 60_000,
};
const resolved: Notice = { ...firing, status: 'resolved', endsAt: NOW - 1000 };

function posting(timeout?: number) {
  const { post, close } = createPost(timeout);
  afterThisTest(close);
  return post;
}

const ALERTMANAGER_FORMAT = {
  format: 'alertmanager',
  grouping: { by: ['alertname', 'account'], wait: 0, repeatEvery: 1000 },
} as const;

const KEY = 'e93facc04764012d7bfb002500d5d1a6';
/** A path that is a credential. */
const PATH = '/services/T0001/B0002/canary';

/** Kinds of notifiers, each with a function that creates a receiver for a URL. */
const KINDS: [string, (url: string, timeout?: number) => Receiver][] = [
  [
    'alertmanager',
    (url, timeout) => {
      const deps = {
        notifier: 'n',
        selects: () => true,
        post: posting(timeout),
        now: () => NOW,
        holdsFor: 240_000,
        externalUrl: '',
      };
      return createAlertmanager({ ...deps, urls: [new Secret(url)] })[0] as Receiver;
    },
  ],
  [
    'webhook',
    (url, timeout) => {
      const deps = {
        notifier: 'n',
        selects: () => true,
        post: posting(timeout),
        now: () => NOW,
        secret: undefined,
        externalUrl: '',
      };
      return createWebhook({ ...deps, ...ALERTMANAGER_FORMAT, url: async () => new Secret(url) });
    },
  ],
  [
    'slack',
    (url, timeout) => {
      const deps = {
        notifier: 'n',
        selects: () => true,
        post: posting(timeout),
        now: () => NOW,
        secret: undefined,
        externalUrl: '',
      };
      return createWebhook({ ...deps, ...ALERTMANAGER_FORMAT, format: 'slack', url: async () => new Secret(url) });
    },
  ],
  [
    'pagerduty',
    (url, timeout) => {
      const secret = async () => new Secret(KEY);
      const deps = {
        notifier: 'n',
        selects: () => true,
        post: posting(timeout),
        now: () => NOW,
        secret,
        externalUrl: '',
      };
      return createWebhook({
        ...deps,
        format: 'pagerduty',
        grouping: ALERTMANAGER_FORMAT.grouping,
        url: async () => new Secret(url),
      });
    },
  ],
];

async function answering(handle: (request: IncomingMessage, response: ServerResponse) => void) {
  const service = await startHttpService(handle);
  afterThisTest(() => service.close());
  return service;
}

/** Starts a server that calls `handle` when a connection has sent data. Returns its URL. */
async function raw(handle: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer(socket => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => handle(socket));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  afterThisTest(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe.each(KINDS)('any notifier: %s', (_kind, create) => {
  const resultOfStatus = async (status: number) => {
    const service = await answering((_request, response) => void response.writeHead(status).end('no'));
    return create(service.url).send([firing], never);
  };

  it.each([200, 202, 204])('a notifier treats status %d as success', async status => {
    const answer = status === 204 ? 'status 204' : `status ${status}, no`;
    expect(await resultOfStatus(status)).toEqual({ kind: 'ok', answer });
  });

  it.each([
    [408, false],
    [429, true],
    [500, false],
    [502, false],
    [503, true],
  ])('a notifier retries after status %d (down: %s)', async (status, isDown) => {
    expect(await resultOfStatus(status)).toEqual({
      kind: 'retry',
      answer: `status ${status}, no`,
      isDown,
      isUnsent: isDown,
    });
  });

  it.each([
    ['7', 7000],
    ['12.5', 12_500],
    ['3, 3', undefined],
    ['999999999', 3_600_000],
    ['9'.repeat(400), 3_600_000],
    [new Date(NOW + 5000).toUTCString(), 5000],
    [new Date(NOW + 366 * 86_400_000).toUTCString(), 3_600_000],
    [new Date(NOW - 5000).toUTCString(), 0],
    ['soon', undefined],
  ])('a notifier returns the delay from the Retry-After header: %s', async (header, after) => {
    const service = await answering(
      (_request, response) => void response.writeHead(429, { 'retry-after': header }).end(),
    );
    const asked = { kind: 'retry', answer: 'status 429', isDown: true, isUnsent: true };
    expect(await create(service.url).send([firing], never)).toEqual(after === undefined ? asked : { ...asked, after });
  });

  it('a notifier does not retry a notification that was rejected as invalid', async () => {
    expect(await resultOfStatus(400)).toEqual({ kind: 'refused', answer: 'status 400, no', isWhole: false });
  });

  it.each([
    [
      '{"status":"invalid event","message":"Event object is invalid","errors":["Invalid routing key"]}',
      'Event object is invalid: Invalid routing key',
    ],
    ['{"error":{"code":7,"message":"clé"}}', 'clé'],
    ['invalid_payload\n', 'invalid_payload'],
    [`no \x1b[31mhook\u202e for ${KEY} at ${PATH}`, 'no hook\ufffd for <secret> at /<secret>'],
    ['x '.repeat(400), `${'x '.repeat(99)}x…`],
    ['<html>503</html>', undefined],
    [`{"message":"${'x'.repeat(2000)}"}`, undefined],
    ['{"code":7}', undefined],
    ['null', 'null'],
  ])('a notifier reports the reason in the response %j as %j', async (body, reason) => {
    const service = await answering((_request, response) => void response.writeHead(400).end(body));
    const why = reason === undefined ? 'status 400' : `status 400, ${reason}`;
    expect(await create(`${service.url}${PATH}`).send([firing], never)).toMatchObject({ kind: 'refused', answer: why });
  });

  it('a notifier does not follow redirects', async () => {
    const other = await answering((_request, response) => void response.end());
    const service = await answering(
      (_request, response) => void response.writeHead(307, { location: `${other.url}/elsewhere` }).end(),
    );
    expect(await create(service.url).send([firing], never)).toEqual({
      kind: 'retry',
      answer: 'status 307',
      isDown: false,
      isUnsent: false,
    });
    expect(other.requests).toEqual([]);
  });

  it.each<[string, (socket: Socket) => void, string]>([
    ['closes the connection', socket => socket.destroy(), 'UND_ERR_SOCKET'],
    ['speaks another protocol', socket => socket.end('SSH-2.0-x\r\n'), 'HTTPParserError'],
    ['never responds', () => undefined, 'TimeoutError'],
    ['never completes its headers', socket => socket.write('HTTP/1.1 200 OK\r\nx-y: '), 'TimeoutError'],
    [
      'sends endless headers',
      socket => socket.write(`HTTP/1.1 200 OK\r\n${`x: ${'y'.repeat(1000)}\r\n`.repeat(100)}`),
      'UND_ERR_HEADERS_OVERFLOW',
    ],
  ])('a notifier treats a receiver that %s as down', async (_what, handle, why) => {
    const timeout = why === 'TimeoutError' ? 200 : 60_000;
    expect(await create(await raw(handle), timeout).send([firing], never)).toEqual({
      kind: 'retry',
      answer: why,
      isDown: true,
      isUnsent: false,
    });
  });

  it('a notifier does not read an endless response', async () => {
    let written = 0;
    const url = await raw(socket => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
      const more = () => {
        written += 65_536;
        if (!socket.destroyed) socket.write(chunk, more);
      };
      more();
    });
    expect(await create(url).send([firing], never)).toMatchObject({ kind: 'ok' });
    // The server can write only as much as the socket buffers of both ends hold.
    expect(written).toBeLessThan(32 * 2 ** 20);
  });

  it('send rejects if it is stopped and no response arrives; the result of a failed connection does not contain the URL', async () => {
    const stop = new AbortController();
    const url = `${await raw(() => stop.abort())}/canary`;
    await expect(create(url, 200).send([firing], stop.signal)).rejects.toThrow('no response within 200 ms');
    expect(JSON.stringify(await create('http://127.0.0.1:1/canary').send([firing], never))).not.toContain('canary');
  });

  it('send returns the result of a request that is in flight when it is stopped, and sends nothing afterwards', async () => {
    const stop = new AbortController();
    const service = await answering((_request, response) => {
      stop.abort(new Error('stopped'));
      setTimeout(() => response.end(), 50);
    });
    const receiver = create(service.url);
    expect(await receiver.send([firing], stop.signal)).toMatchObject({ kind: 'ok' });
    await expect(receiver.send([firing], stop.signal)).rejects.toThrow('stopped');
    expect(service.requests).toHaveLength(1);
  });
});

it('the fingerprint is the 64-bit FNV-1a hash of the sorted labels', () => {
  const label = fc.tuple(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }));
  fc.assert(
    fc.property(fc.uniqueArray(label, { selector: ([name]) => name, maxLength: 5 }), pairs => {
      const bytes = [...pairs]
        .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
        .flatMap(pair => pair.flatMap(text => [...Buffer.from(text), 255]));
      const hash = bytes.reduce(
        (hash, byte) => BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n),
        0xcbf29ce484222325n,
      );
      expect(fingerprintOf(Object.fromEntries(pairs))).toBe(hash.toString(16).padStart(16, '0'));
    }),
  );
});

describe('alert end times', () => {
  it('Alertmanager gets the planned end of an alert with a fixed duration, and the actual end of a resolved one', async () => {
    const bodies: unknown[] = [];
    const service = await answering((request, response) => {
      request.setEncoding('utf8').on('data', text => bodies.push(JSON.parse(text)));
      request.on('end', () => response.end());
    });
    const deps = {
      notifier: 'n',
      selects: () => true,
      post: posting(),
      now: () => NOW,
      holdsFor: 240_000,
      externalUrl: 'https://dw.example',
    };
    const [receiver] = createAlertmanager({ ...deps, urls: [new Secret(`${service.url}/prefix/`)] });
    const ended: Notice = { ...firing, lasts: 900_000 };
    expect(await receiver?.send([firing, resolved, ended], never)).toEqual({ kind: 'ok', answer: 'status 200' });
    expect(service.requests).toEqual(['POST /prefix/api/v2/alerts']);
    const common = {
      labels: firing.labels,
      annotations: firing.annotations,
      startsAt: '2026-06-01T11:59:00.000Z',
      generatorURL: 'https://dw.example',
    };
    expect(bodies).toEqual([
      [
        { ...common, endsAt: '2026-06-01T12:04:00.000Z' },
        { ...common, endsAt: '2026-06-01T11:59:59.000Z' },
        { ...common, endsAt: '2026-06-01T12:15:00.000Z' },
      ],
    ]);
  });
});

describe("after the agent's clock was set back", () => {
  it('Alertmanager gets the current time instead of a future start time and instead of a future end time of a resolved alert', async () => {
    const bodies: { startsAt: string; endsAt: string }[][] = [];
    const post = async (_url: string, { body }: { readonly body: string }) => {
      bodies.push(JSON.parse(body));
      return { status: 200, text: '' };
    };
    const deps = { notifier: 'n', selects: () => true, post, now: () => NOW, holdsFor: 240_000, externalUrl: '' };
    const [receiver] = createAlertmanager({ ...deps, urls: [new Secret('http://h.example')] });
    const startsAt = NOW + 3_600_000;
    await receiver?.send(
      [
        { ...firing, startsAt },
        { ...resolved, startsAt, endsAt: startsAt + 1 },
      ],
      never,
    );
    expect(bodies[0]).toMatchObject([
      { startsAt: '2026-06-01T12:00:00.000Z', endsAt: '2026-06-01T12:04:00.000Z' },
      { startsAt: '2026-06-01T12:00:00.000Z', endsAt: '2026-06-01T12:00:00.000Z' },
    ]);
  });
});

describe('webhooks', () => {
  async function deliver(notice: Notice, secret?: () => Promise<Secret>) {
    let text = '';
    const service = await answering((request, response) => {
      request.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      request.on('end', () => response.end());
    });
    const deps = {
      notifier: 'hook',
      selects: () => true,
      post: posting(),
      now: () => NOW,
      externalUrl: 'https://dw.example',
    };
    const result = await createWebhook({
      ...deps,
      ...ALERTMANAGER_FORMAT,
      url: async () => new Secret(`${service.url}/x?key=1`),
      secret,
    }).send([notice], never);
    return { result, text, service, headers: service.headers[0] ?? {} };
  }

  it("a webhook gets a body in Alertmanager's format, version 4, and an idempotency key that contains the fingerprint", async () => {
    const { service, headers, text } = await deliver(firing);
    expect(service.requests).toEqual(['POST /x?key=1']);
    const fingerprint = fingerprintOf(firing.labels);
    expect(headers['idempotency-key']).toBe(`${fingerprint}:firing:2026-06-01T11:59:00.000Z`);
    expect(headers['content-type']).toBe('application/json');
    expect(headers).not.toHaveProperty('x-delivery-watch-signature');
    expect(JSON.parse(text)).toEqual({
      version: '4',
      groupKey: '{}:{account="production", alertname="DlqGrowing"}',
      truncatedAlerts: 0,
      status: 'firing',
      receiver: 'hook',
      groupLabels: { account: 'production', alertname: 'DlqGrowing' },
      commonLabels: firing.labels,
      commonAnnotations: firing.annotations,
      externalURL: 'https://dw.example',
      alerts: [
        {
          status: 'firing',
          labels: firing.labels,
          annotations: firing.annotations,
          startsAt: '2026-06-01T11:59:00.000Z',
          endsAt: '0001-01-01T00:00:00Z',
          generatorURL: 'https://dw.example',
          fingerprint,
        },
      ],
    });
  });

  it("a webhook gets a group in Alertmanager's format: common labels, all alerts and the number of omitted ones", async () => {
    const other: Notice = {
      status: 'resolved',
      labels: { ...firing.labels, flow_control_key: 'k' },
      annotations: { summary: 'It grows.', more: 'x' },
      startsAt: NOW - 90_000,
      endsAt: NOW,
    };
    let text = '';
    const service = await answering((request, response) => {
      request.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      request.on('end', () => response.end());
    });
    const deps = {
      notifier: 'hook',
      selects: () => true,
      post: posting(),
      now: () => NOW,
      externalUrl: '',
      secret: undefined,
    };
    const hook = createWebhook({ ...deps, ...ALERTMANAGER_FORMAT, url: async () => new Secret(service.url) });
    await hook.send([firing, other], never, { labels: { alertname: 'DlqGrowing' }, key: 'the-key', left: 7 });
    expect(service.headers[0]?.['idempotency-key']).toBe('the-key');
    expect(JSON.parse(text)).toMatchObject({
      groupKey: '{}:{alertname="DlqGrowing"}',
      truncatedAlerts: 7,
      status: 'firing',
      groupLabels: { alertname: 'DlqGrowing' },
      commonLabels: firing.labels,
      commonAnnotations: firing.annotations,
      alerts: [
        { status: 'firing', fingerprint: fingerprintOf(firing.labels) },
        { status: 'resolved', fingerprint: fingerprintOf(other.labels), endsAt: '2026-06-01T12:00:00.000Z' },
      ],
    });
  });

  it('a webhook gets the end time of resolved alerts and of alerts with a fixed duration', async () => {
    const endsAt = async (notice: Notice) => JSON.parse((await deliver(notice)).text).alerts[0].endsAt;
    expect(await endsAt(resolved)).toBe('2026-06-01T11:59:59.000Z');
    expect(await endsAt({ ...firing, lasts: 900_000 })).toBe('2026-06-01T12:14:00.000Z');
  });

  it('webhook requests have a timestamp and a signature over the timestamp and the body', async () => {
    const { headers, text } = await deliver(firing, async () => new Secret('hook-secret'));
    const timestamp = String(headers['x-delivery-watch-timestamp']);
    expect(timestamp).toBe(String(NOW / 1000));
    const expected = createHmac('sha256', 'hook-secret').update(`${timestamp}.${text}`).digest('hex');
    expect(headers['x-delivery-watch-signature']).toBe(`sha256=${expected}`);
  });

  it('a webhook gets no request while its secret cannot be read', async () => {
    const { result, service } = await deliver(firing, () => Promise.reject(new Error('no file')));
    expect(result).toEqual({ kind: 'retry', answer: 'no secret', isDown: true, isUnsent: true });
    expect(service.requests).toEqual([]);
  });

  it.each([
    [401, true],
    [404, true],
    [410, true],
    [413, false],
    [422, false],
  ])('a webhook that responds with status %d refuses the notification (any other one: %s)', async (status, isWhole) => {
    const service = await answering((_request, response) => void response.writeHead(status).end());
    const [, create] = KINDS[1] as (typeof KINDS)[number];
    const refused = { kind: 'refused', answer: `status ${status}`, isWhole };
    expect(await create(service.url).send([firing], never)).toEqual(refused);
  });

  it('a webhook has another identity when its address or secret changes', async () => {
    const identityOf = (url: string, secret: string) =>
      createWebhook({
        ...{ notifier: 'n', selects: () => true, post: posting(), now: () => NOW, externalUrl: '' },
        ...ALERTMANAGER_FORMAT,
        url: async () => new Secret(url),
        secret: async () => new Secret(secret),
      }).identity();
    const all = await Promise.all([
      identityOf('http://a', 'x'),
      identityOf('http://b', 'x'),
      identityOf('http://a', 'y'),
    ]);
    expect(new Set(all).size).toBe(3);
    expect(await identityOf('http://a', 'x')).toBe(all[0]);
    expect(all.every(identity => /^[0-9a-f]{64}$/.test(identity))).toBe(true);
  });
});
