import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { runCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';
import { parseExposition } from '../support/parse-exposition.ts';

function configFile(config: object): string {
  const folder = newFolder();
  const file = join(folder, 'config.yaml');
  writeFileSync(file, JSON.stringify({ store: { kind: 'memory' }, ...config }));
  return file;
}

const account = (baseUrl: string) => ({ name: 'a', baseUrl, token: { env: 'DELIVERY_TOKEN' } });

describe('snapshot output', () => {
  async function services() {
    const healthy = await serve((request, response) => {
      if (request.url?.startsWith('/v2/flowControl'))
        json(response, [{ flowControlKey: 'a\u001b[2J', waitListSize: 3 }]);
      else {
        const letter = {
          createdAt: Date.UTC(2026, 0, 1),
          url: 'https://b.example/users/7/\u001b?x=canary',
          responseStatus: 500,
        };
        const messages = [0, 1]
          .map(index => `${Date.UTC(2026, 0, 1) + index}-0`)
          .map((dlqId, index) => ({ ...letter, dlqId, responseBody: `canary ${index}` }));
        json(response, { messages, events: [] });
      }
    });
    const refusing = await serve((_request, response) => json(response, {}, 401));
    return { healthy: account(healthy.url), refusing: { ...account(refusing.url), name: 'refused' } };
  }
  const run = (accounts: object[], ...options: string[]) =>
    runCli(['snapshot', '--config', configFile({ accounts }), ...options], { DELIVERY_TOKEN: 'x' });

  it('snapshot escapes control and formatting characters of the service on a terminal and in JSON', async () => {
    const key = 'a\u001b]0;x\u0007\u0085\u009b2J\u202e\u2066\u200b\u2028';
    const { url } = await serve((request, response) =>
      json(
        response,
        request.url?.startsWith('/v2/flowControl')
          ? [{ flowControlKey: key, waitListSize: 3 }]
          : { messages: [], events: [] },
      ),
    );
    const unsafe = /(?![\r\n])[\p{Cc}\p{Cf}\p{Zl}]/u;
    const printed = await run([account(url)], '--json');
    expect(printed.stdout).not.toMatch(unsafe);
    expect(JSON.stringify(JSON.parse(printed.stdout).samples)).toContain(JSON.stringify(key));
    const main = join(import.meta.dirname, '../../src/main.ts');
    const command = [
      process.execPath,
      main,
      'snapshot',
      '--prometheus',
      '--config',
      configFile({ accounts: [account(url)] }),
    ];
    const { stdout: terminal } = await promisify(execFile)(
      'script',
      ['-qec', `${command.join(' ')} 2>/dev/null`, '/dev/null'],
      {
        encoding: 'utf8',
        env: { ...process.env, DELIVERY_TOKEN: 'x' },
      },
    );
    expect(terminal).toContain('flow_control_key="a\\u001b]0;x\\u0007\\u0085\\u009b2J\\u202e\\u2066\\u200b\\u2028"');
    expect(terminal).not.toMatch(unsafe);
    const { stdout } = await run([account(url)], '--prometheus');
    expect(
      parseExposition(stdout, 'text')
        .flatMap(({ samples }) => samples)
        .map(({ labels }) => labels.flow_control_key),
    ).toContain(key);
  });

  it('snapshot prints one complete collection as a table, JSON or Prometheus text, and exits with 0', async () => {
    const { healthy } = await services();
    const table = await run([healthy]);
    expect(table).toMatchObject({ code: 0, stderr: '' });
    expect(table.stdout).toMatch(/^a {8}delivery_dlq_messages +2$/m);
    expect(table.stdout).toMatch(/dlq_oldest_entered_timestamp_seconds +2026-01-01T00:00:00.000Z$/m);
    expect(table.stdout).toContain('a\u{fffd}[2J');
    expect(table.stdout).not.toContain('canary');
    const parsed = JSON.parse((await run([healthy], '--json')).stdout);
    expect(parsed.accounts).toMatchObject([{ account: 'a', up: true }]);
    expect(parsed.samples).toContainEqual({
      account: 'a',
      metric: 'delivery_dlq_messages',
      labels: {},
      value: 2,
    });
    const metric = { account: 'a', metric: 'delivery_dlq_group_messages', value: 2 };
    const labels = { group: expect.any(String), url_host: 'b.example', response_status: '500' };
    expect(parsed.samples).toContainEqual({ ...metric, labels });
    const text = (await run([healthy], '--prometheus')).stdout;
    expect(parseExposition(text, 'text').find(({ name }) => name === 'delivery_up')?.samples[0]?.value).toBe(1);
    expect(await run([healthy], '--json', '--prometheus')).toMatchObject({ code: 2 });
  });

  it('snapshot prints all data that it could read, and exits with 1 if an account failed', async () => {
    const { healthy, refusing } = await services();
    const { code, stdout, stderr } = await run([healthy, refusing]);
    expect(code).toBe(1);
    expect(stdout).toContain('delivery_dlq_messages');
    expect(stdout).toContain('refused: dlq failed: GET /v2/dlq: status 401 (unauthorized)');
    expect(stderr).toBe('not complete: refused\n');
  });
});
