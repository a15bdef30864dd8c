import { writeFileSync } from 'node:fs';
import { Agent as HttpAgent, request } from 'node:http';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';

const PASSWORD = 'password-canary';

it('the agent rejects ten thousand wrong passwords while it serves a client with the right one', async () => {
  const account = { name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } };
  const webConfigFile = join(newFolder(), 'web.yaml');
  writeFileSync(webConfigFile, JSON.stringify({ basic_auth_users: { prometheus: hashSync(PASSWORD, 10) } }));
  const agent = createAgent(
    { server: { listen: '127.0.0.1:0', webConfigFile }, accounts: [account] },
    { DELIVERY_TOKEN: 'token-canary' },
  );
  const { hostname, port } = new URL(await agent.start());
  const connections = new HttpAgent({ keepAlive: true });
  afterThisTest(async () => connections.destroy());
  const ask = (path: string, auth: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      request({ hostname, port, path, agent: connections, auth }, response => {
        response.resume().on('end', () => resolve(response.statusCode));
      })
        .on('error', reject)
        .end();
    });
  const scrape = () => ask('/metrics', `prometheus:${PASSWORD}`);
  expect(await scrape()).toBe(200);
  const refused = new Map<number | undefined, number>();
  let left = 10_000;
  async function guess() {
    while (left > 0) {
      left -= 1;
      const status = await ask('/-/healthy', `${left % 2 ? 'prometheus' : 'nobody'}:guess ${left}`);
      refused.set(status, (refused.get(status) ?? 0) + 1);
      if (left % 100 === 0) expect(await scrape()).toBe(200);
    }
  }
  await Promise.all(Array.from({ length: 20 }, guess));
  // A busy machine may also answer 503: the check of a password waited for too long.
  expect([...refused.keys()].sort().filter(status => status !== 503)).toEqual([401, 429]);
  expect([...refused.values()].reduce((sum, count) => sum + count)).toBe(10_000);
  expect(agent.process.stderr()).not.toContain('canary');
});
