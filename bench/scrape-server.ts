/**
 * Runs one of the servers that bench/scrape.ts measures, in a separate process: `node bench/scrape-server.ts ROLE`. Sends its
 * port to its parent.
 */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { Counter, Gauge, Registry } from 'prom-client';
import * as writer from '../src/metrics/exposition.ts';
import { ACCOUNTS, accountName, createChangingSource, families, samplesOf } from './series.ts';

/** Stand-in for the process metrics, which change with every scrape of the agent. */
const PROCESS = { name: 'process_cpu_seconds_total', type: 'counter', help: 'CPU time.', labels: [] } as const;

function createExposition() {
  const accounts = Array.from({ length: ACCOUNTS }, (_, account) =>
    createChangingSource(accountName(account), families, version => samplesOf(account, version)),
  );
  const agent = createChangingSource(undefined, [PROCESS], value => new Map([[PROCESS.name, [{ labels: {}, value }]]]));
  const sources = [...accounts, agent].map(({ source }) => source);
  return { accounts, agent, exposition: writer.createExposition(sources) };
}

const headersOf = (gzip: boolean, body: Buffer) => ({
  'Content-Type': writer.CONTENT_TYPES.text,
  'Content-Length': body.length,
  Vary: 'Accept, Accept-Encoding',
  ...(gzip ? { 'Content-Encoding': 'gzip' } : {}),
});

const ROLES: Readonly<Record<string, () => RequestListener | Promise<RequestListener>>> = {
  ours() {
    const { accounts, agent, exposition } = createExposition();
    let turn = 0;
    return express()
      .get('/metrics', async (request, response) => {
        const gzip = request.acceptsEncodings('gzip') === 'gzip';
        agent.change();
        const body = await exposition.render({ scope: 'everything', format: 'text', gzip });
        response.writeHead(200, headersOf(gzip, body));
        response.end(body);
      })
      .get('/change', (_request, response) => {
        accounts[turn++ % ACCOUNTS]?.change();
        response.end();
      });
  },

  /** Serves the same bytes, rendered in advance. */
  async ready() {
    const { exposition } = createExposition();
    const plain = await exposition.render({ scope: 'everything', format: 'text', gzip: false });
    const gzipped = await exposition.render({ scope: 'everything', format: 'text', gzip: true });
    return (request, response) => {
      const gzip = request.headers['accept-encoding'] === 'gzip';
      const body = gzip ? gzipped : plain;
      response.writeHead(200, headersOf(gzip, body));
      response.end(body);
    };
  },

  'prom-client'() {
    const registry = new Registry();
    const metrics = families.map(({ name, help, type, labels }) => {
      const options = { name, help, labelNames: ['account', ...labels], registers: [registry] };
      return type === 'counter' ? new Counter(options) : new Gauge(options);
    });
    for (let account = 0; account < ACCOUNTS; account++) {
      const samples = samplesOf(account, 0);
      families.forEach(({ name }, index) => {
        for (const { labels, value } of samples.get(name) ?? []) {
          metrics[index]?.inc({ account: accountName(account), ...labels }, value);
        }
      });
    }
    return async (_request, response) => {
      const text = await registry.metrics();
      response.writeHead(200, { 'Content-Type': writer.CONTENT_TYPES.text });
      response.end(text);
    };
  },
};

const role = ROLES[process.argv[2] ?? ''];
if (role === undefined) throw new Error(`unknown role; the roles are ${Object.keys(ROLES).join(', ')}`);
const server = createServer(await role());
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit());
