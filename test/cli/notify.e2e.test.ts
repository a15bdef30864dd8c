import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';
import { serve } from '../support/http-service.ts';

it('notify test sends a test notification to each address, prints the responses, and exits with 0, 1 or 2', async () => {
  const bodies: string[] = [];
  const service = await serve((request, response) => {
    let text = '';
    request.on('data', chunk => {
      text += chunk;
    });
    request.on('end', () => {
      bodies.push(text);
      response.writeHead(request.url?.startsWith('/bad') ? 404 : 200).end('the answer');
    });
  });
  const file = join(newFolder(), 'config.yaml');
  // Neither the account's token nor the other notifiers' secrets are needed.
  writeFileSync(
    file,
    `accounts: [{ name: a, baseUrl: 'http://127.0.0.1:1', token: { env: TOKEN } }]
alerts:
  notifiers:
    - { name: hook, severity: critical, match: { account: a }, webhook: { url: { env: URL } } }
    - { name: bad, webhook: { url: '${service.url}/bad-canary', format: discord } }
    - { name: ops, alertmanager: { urls: ['${service.url}', '${service.url}/bad'] } }
`,
  );
  async function run(name: string, env: Record<string, string> = {}) {
    const cli = startCli(['notify', 'test', name, '--config', file], env);
    return { code: await cli.ended, out: cli.stdout(), err: cli.stderr() };
  }
  expect(await run('hook', { URL: `${service.url}/hook` })).toMatchObject({
    code: 0,
    out: 'hook: accepted, status 200, the answer\n',
  });
  expect(JSON.parse(bodies[0] ?? '').alerts).toMatchObject([
    { labels: { alertname: 'DeliveryTest', notifier: 'hook', severity: 'info' } },
  ]);
  const bad = await run('bad');
  expect(bad).toMatchObject({ code: 1, out: 'bad: not accepted, status 404, the answer\n' });
  expect(bad.err).not.toContain('canary');
  expect(await run('ops')).toMatchObject({
    code: 1,
    out: 'ops (address 1): accepted, status 200, the answer\nops (address 2): not accepted, status 404, the answer\n',
  });
  expect(bodies).toHaveLength(4);
  expect(await run('none')).toMatchObject({
    code: 2,
    err: 'error: there is no notifier called none; there are: hook, bad, ops\n',
  });
  expect(await run('hook')).toMatchObject({ code: 2 });
});
