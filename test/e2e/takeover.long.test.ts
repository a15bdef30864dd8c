import { expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { atThisLoad, eventually } from '../support/eventually.ts';
import { json, serve } from '../support/http-service.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';

const ACCOUNTS = 100;
const names = Array.from({ length: ACCOUNTS }, (_, index) => `account-${index}`);
/** Maximum time of a takeover with the default lease (ms, on an idle machine). */
const WITHIN = { SIGKILL: 18_000, SIGTERM: 5000 } as const;

const postgres = postgresIsThere() ? postgresForTests() : undefined;

it.skipIf(!postgres).each(['SIGKILL', 'SIGTERM'] as const)(
  'after a %s of the leader, a standby reads 100 accounts in time',
  async signal => {
    /** Time of the first request with each token (ms, monotonic). */
    const readAt = new Map<string, number>();
    const service = await serve(({ headers: { authorization = '' }, url = '' }, response) => {
      if (!readAt.has(authorization)) readAt.set(authorization, performance.now());
      json(response, url.startsWith('/v2/dlq') ? { messages: [] } : url.startsWith('/v2/events') ? { events: [] } : []);
    });
    const config = {
      store: { kind: 'postgres', url: { env: 'DATABASE_URL' } },
      accounts: names.map(name => ({ name, baseUrl: service.url, token: name })),
      collect: { flowControl: { every: '1s' } },
    };
    const env = { DATABASE_URL: (await postgres?.().createDatabase()) ?? '' };
    const [leader, standby] = [createAgent(config, env), createAgent(config, env)];
    await leader.start();
    await eventually(() => expect(readAt.size).toBe(ACCOUNTS));
    await standby.start();
    const endedAt = performance.now();
    await leader.end(signal);
    // Requests of the stopping leader do not count.
    readAt.clear();
    await eventually(() => expect(readAt.size).toBe(ACCOUNTS));
    const took = Math.max(...readAt.values()) - endedAt;
    expect(await standby.value('delivery_watch_leader')).toBe(1);
    process.stdout.write(`${signal}: all accounts were read again after ${(took / 1000).toFixed(1)} s\n`);
    expect(took).toBeLessThan(atThisLoad(WITHIN[signal]));
  },
);
