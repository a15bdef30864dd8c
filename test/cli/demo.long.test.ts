import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';

/** Starts a server that counts connections and closes each one immediately. */
async function startCanary() {
  let connections = 0;
  const server = createServer(socket => {
    connections += 1;
    socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterThisTest(async () => void server.close());
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => connections };
}

function rehearse(config: object, env: Readonly<Record<string, string>> = {}) {
  const file = join(newFolder(), 'config.yaml');
  writeFileSync(file, JSON.stringify(config));
  const args = ['demo', '--config', file, '--speed', '900', '--listen', '127.0.0.1:0'];
  const cli = startCli(args, env, [], 'pipe');
  afterThisTest(async () => {
    cli.kill('SIGKILL');
    await cli.ended;
  });
  return cli;
}

const rule = {
  name: 'jobs',
  mode: 'approve',
  match: { workflowUrl: { prefix: ['https://api.example/jobs/'] } },
  stuckWhen: { inProgressFor: '46m', assumeMaxRetries: 1, idleFor: '10m' },
  grace: '0s',
  notify: ['ops'],
};

it('a rehearsal plans, approves, cancels and notifies without connecting to any configured address', async () => {
  const { host, connections } = await startCanary();
  const url = `http://${host}`;
  const cli = rehearse(
    {
      server: { webConfigFile: '/nonexistent/web.yaml' },
      upstream: { proxy: url },
      store: { kind: 'postgres', url: { env: 'NOT_SET' } },
      accounts: [
        {
          name: 'production',
          baseUrl: url,
          regionalBaseUrl: url,
          token: { env: 'NOT_SET' },
          actionToken: { file: '/nonexistent/token' },
          upstream: { proxy: null },
        },
      ],
      tracing: { enabled: true, endpoint: url },
      push: { metrics: { enabled: true, endpoint: url, every: '1s' } },
      heartbeat: { url },
      collect: { dlq: { filters: [{ name: 'payments', match: { queueName: 'payments' } }] } },
      alerts: {
        enabled: true,
        rules: [
          {
            name: 'Payments',
            when: { above: { metric: 'delivery_dlq_filter_messages', labels: { filter: 'payments' }, value: 0 } },
          },
        ],
        notifiers: [{ name: 'ops', webhook: { url } }],
      },
      autoCancel: {
        mode: 'enforce',
        rules: [rule, { ...rule, name: 'planned', mode: 'plan', match: { label: { in: ['planned'] } }, notify: [] }],
      },
    },
    { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_METRICS_EXPORTER: 'otlp', HTTP_PROXY: url, DELIVERY_TOKEN: 'canary' },
  );
  await cli.says(
    /Time runs 900 times as fast for service and agent, and 60 times while a rule may first act\. Prometheus keeps real time/,
  );
  await cli.says(/to ops: firing Payments\{/);
  const [, action = ''] = await cli.says(/to ops: firing DeliveryAutoCancelAwaitingApproval\{.*action="([0-9a-f]+)"/);
  cli.type('pending');
  await cli.says(/To approve:/);
  cli.type(`delivery-watch auto-cancel approve ${action} --config /nonexistent/config.yaml`);
  await cli.says(new RegExp(`${action} is approved for the rule jobs`));
  await cli.says(new RegExp(`auto-cancel action ended.*action=${action}.*outcome=confirmed`));
  await cli.says(/stuck failure callback would be cancelled.*rule=planned/);
  cli.type('journal');
  await cli.says(/ended +jobs .*confirmed/);
  const [, emulator = ''] = await cli.says(/emulator +(http\S+)/);
  const state = (await (await fetch(`${emulator}_emulator/state`)).json()) as { callbacks: { cancels: object } };
  expect(Object.keys(state.callbacks.cancels)).toHaveLength(1);
  expect(connections()).toBe(0);
  cli.kill('SIGTERM');
  expect(await cli.ended).toBe(0);
});
