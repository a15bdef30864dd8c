import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { type Agent, startAgent, unlimited } from '../support/agent.ts';
import { eventually } from '../support/eventually.ts';
import { json, serve } from '../support/http-service.ts';

const PAGES = 7;
const TIMEOUT = 1500;

type Respond = (response: ServerResponse) => void;
const hang: Respond = () => undefined;
const drip: Respond = response => {
  response.writeHead(200).write('{');
  const timer = setInterval(() => response.write(' '), 20);
  response.on('close', () => clearInterval(timer));
};

/**
 * Starts a service with 7 pages of dead letters, one key and no events. After `breakWith`, requests selected by `isHit`
 * never get a complete response.
 */
async function startService() {
  let trouble: { readonly isHit: (path: string) => boolean; readonly respond: Respond } | undefined;
  let hitAt: number | undefined;
  const service = await serve((request, response) => {
    const path = request.url ?? '';
    const { pathname, searchParams } = new URL(path, 'http://x');
    if (trouble?.isHit(path)) {
      hitAt ??= Date.now();
      return trouble.respond(response);
    }
    if (pathname !== '/v2/dlq') {
      return json(response, pathname === '/v2/events' ? { events: [] } : [{ flowControlKey: 'k', waitListSize: 1 }]);
    }
    const page = Number(searchParams.get('cursor') ?? 1);
    const next = page < PAGES ? { cursor: String(page + 1) } : {};
    return json(response, {
      ...next,
      messages: [{ dlqId: `${page}-0`, messageId: `m${page}`, createdAt: Date.now() }],
    });
  });
  return {
    url: service.url,
    /** Time of the first affected request (ms since the Unix epoch). */
    hitAt: () => hitAt,
    breakWith(isHit: (path: string) => boolean, respond: Respond) {
      trouble = { isHit, respond };
    },
    repair() {
      trouble = undefined;
    },
  };
}

interface Round {
  readonly collector: string;
  readonly state: string;
}

/** Reads all outputs and checks that they agree. */
async function readOutputs(agent: Agent) {
  const [metrics, status, account, overview, page] = await Promise.all([
    agent.scrape(),
    agent.get('/api/v1/status').then(JSON.parse),
    agent.get('/api/v1/accounts/a').then(JSON.parse),
    agent.get('/'),
    agent.get('/accounts/a'),
  ]);
  const stale = metrics.sum('delivery_collector_data_stale', { account: 'a' }) ?? 0;
  const up = metrics.sum('delivery_up', { account: 'a' }) === 1;
  expect(up && stale > 0).toBe(false);
  for (const each of status.accounts) {
    const rounds = each.collectors.flatMap((collector: { rounds: { stale: boolean }[] }) => collector.rounds);
    expect(each.up && rounds.some((round: { stale: boolean }) => round.stale)).toBe(false);
  }
  const staleRounds = account.rounds.filter(({ state }: Round) => state === 'stale' || state === 'withdrawn');
  expect(account.up && staleRounds.length > 0).toBe(false);
  // Different parts of one rendering of the page must agree.
  const isStale = overview.includes('class="tag stale"') || overview.includes('class="tag withdrawn"');
  const isAllUp = overview.replace(/<[^>]+>/g, '').includes('1 of 1 account up');
  expect(isStale && isAllUp).toBe(false);
  if (isStale || !isAllUp) expect(overview).not.toContain('>All right');
  expect(page + overview).not.toContain('not read since the agent started');
  expect(page + overview).not.toContain('nothing was read since');
  return {
    up,
    stale,
    account,
    failures: metrics.sum('delivery_collector_consecutive_failures', { account: 'a' }) ?? 0,
  };
}

describe('unresponsive services', () => {
  it.each<[string, (path: string) => boolean, Respond]>([
    ['hangs on every endpoint', () => true, hang],
    ['responds too slowly on every endpoint', () => true, drip],
    ['hangs on one endpoint', path => path.startsWith('/v2/dlq'), hang],
    ['hangs on page 7 of a walk', path => path.includes(`cursor=${PAGES}`), hang],
    ['responds too slowly on page 7 of a walk', path => path.includes(`cursor=${PAGES}`), drip],
  ])('soon after a single request timeout, all outputs report a service that %s', async (_where, isHit, respond) => {
    const service = await startService();
    const agent = await startAgent({
      accounts: [unlimited('a', service.url)],
      upstream: { timeout: `${TIMEOUT}ms` },
      collect: {
        flowControl: { every: '500ms' },
        dlq: { every: '500ms', rescanEvery: '2s' },
        events: { every: '500ms' },
      },
    });
    await eventually(async () => {
      const { up, account } = await readOutputs(agent);
      expect(up).toBe(true);
      expect(account.deadLetters.messages).toBe(PAGES);
    });
    service.breakWith(isHit, respond);
    await eventually(() => expect(service.hitAt()).toBeDefined());
    const hitAt = service.hitAt() ?? 0;
    await eventually(async () => expect((await readOutputs(agent)).up).toBe(false));
    const noticed = Date.now() - hitAt;
    await eventually(async () => expect((await readOutputs(agent)).failures).toBeGreaterThan(0));
    const failed = Date.now() - hitAt;
    const [line] = await agent.process.says(/\{[^\n]*"reason":"timeout"[^\n]*collection failed[^\n]*/);
    expect(Date.parse(JSON.parse(line).time) - hitAt).toBeLessThan(TIMEOUT + 1000);
    // Reading the outputs takes time as well. Four attempts with the full timeout each would take twice as long.
    for (const took of [noticed, failed]) expect(took).toBeLessThan(2 * TIMEOUT + 1000);
    await eventually(async () => {
      const { stale, account } = await readOutputs(agent);
      expect(stale).toBeGreaterThan(0);
      expect(account.problems).not.toEqual([]);
      // The last success, including that of the walk, was at most one interval before the service broke.
      const since = Date.parse(account.problems[0].since);
      expect(since).toBeGreaterThan(hitAt - 5000);
      expect(since).toBeLessThanOrEqual(hitAt + 200);
    });
    service.repair();
    await eventually(async () => {
      const { up, stale, account } = await readOutputs(agent);
      expect({ up, stale, problems: account.problems }).toEqual({ up: true, stale: 0, problems: [] });
    });
  });
});
