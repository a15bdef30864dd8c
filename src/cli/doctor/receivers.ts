import type { Config } from '../../config/schema.ts';
import { withClosing } from '../../kit/closing.ts';
import type { Env } from '../../kit/secret.ts';
import { otlpAddress } from '../../telemetry/options.ts';
import { tokenSource } from '../../upstream/token.ts';
import { type CheckLine, createChecklist, type DoctorDeps, fail } from './checklist.ts';
import { checkConnection, checkDns, openDispatcher } from './connection.ts';

/** Returns where alerts, heartbeats and spans are sent, by name. An address may be a secret. */
function receiversOf(
  config: Config,
  env: Env,
): readonly (readonly [name: string, address: () => Promise<string> | string])[] {
  const { alerts, heartbeat, tracing } = config;
  return [
    ...alerts.notifiers.flatMap(({ name, alertmanager, webhook }) => [
      ...(alertmanager?.urls ?? []).map(url => [`notifier ${name}`, () => url.reveal()] as const),
      ...(webhook ? [[`notifier ${name}`, async () => (await tokenSource(webhook.url, env)()).reveal()] as const] : []),
    ]),
    ...(heartbeat ? [['heartbeat', async () => (await tokenSource(heartbeat.url, env)()).reveal()] as const] : []),
    ...(tracing.enabled ? [['tracing', () => otlpAddress(tracing.endpoint, env).url] as const] : []),
  ];
}

/** Connects to each receiver and sends nothing. Results contain only scheme, host and port. */
export async function checkReceivers(config: Config, deps: DoctorDeps): Promise<readonly CheckLine[]> {
  return withClosing(async closing => {
    const dispatcher = openDispatcher(closing, deps);
    const all = receiversOf(config, deps.env).map(async ([name, address]) => {
      const list = createChecklist(deps);
      await list.check(name, async () => {
        const found = await Promise.resolve(address()).catch(() => '');
        const url = URL.parse(found);
        if (!url) return fail('its address is missing or invalid', 'check the file or variable that holds it');
        const dns = await checkDns(url.hostname);
        return dns.status === 'ok' ? checkConnection({ dispatcher, now: deps.clock.now }, url) : dns;
      });
      return list.lines;
    });
    return (await Promise.all(all)).flat();
  });
}
