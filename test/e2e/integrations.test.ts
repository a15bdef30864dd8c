import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { createAgent } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { makeAuthority, makeCertificate } from '../support/openssl.ts';
import { requireProgram, startPrometheus } from '../support/prometheus.ts';

const [recipe = '', manyAccounts = ''] = [
  ...readFileSync('docs/integrations.md', 'utf8').matchAll(/^```yaml\n(.*?)^```$/gms),
].map(([, yaml = '']) => yaml);

const ids = z.array(z.string()).min(1);

/**
 * The keys that the recipe may use, with the Collector's rules for them. Sources: otelcol/config.go, service/pipelines/config.go
 * and exporter/otlphttpexporter/README.md of open-telemetry/opentelemetry-collector; receiver/prometheusreceiver/README.md of
 * opentelemetry-collector-contrib.
 */
const Collector = z
  .strictObject({
    receivers: z.strictObject({
      prometheus: z.strictObject({ config: z.strictObject({ scrape_configs: z.array(z.looseObject({})).min(1) }) }),
    }),
    exporters: z.strictObject({
      otlp_http: z.strictObject({
        endpoint: z
          .url({ protocol: /^https?$/ })
          .refine(url => !url.includes('/v1/'), 'the exporter appends /v1/metrics'),
        headers: z.record(z.string(), z.string()),
      }),
    }),
    service: z.strictObject({
      pipelines: z.strictObject({ metrics: z.strictObject({ receivers: ids, exporters: ids }) }),
    }),
  })
  .refine(
    ({ receivers, exporters, service: { pipelines } }) =>
      pipelines.metrics.receivers.every(id => id in receivers) &&
      pipelines.metrics.exporters.every(id => id in exporters),
    'a pipeline refers to a component that is not configured',
  );

/** Replaces environment variables, and `$$` by `$`, as the Collector does. Throws an Error for any other `$`. */
function expanded(yaml: string): string {
  return yaml.replaceAll(/\$(\$|\{env:\w+\})?/g, (text, what?: string) => {
    if (what === undefined) throw new Error(`the Collector requires $$ instead of ${text}`);
    return what === '$' ? '$' : 'value';
  });
}

it('the recipe for the OpenTelemetry Collector uses documented keys, and its pipeline refers to configured components', () => {
  expect(Collector.safeParse(parse(expanded(recipe))).error).toBeUndefined();
  expect(() => expanded('replacement: $1')).toThrow('requires $$');
});

it.skipIf(!requireProgram('openssl') || !requireProgram('prometheus'))(
  'Prometheus, whose scrape configuration the Collector embeds, scrapes an agent with TLS and a password as the recipe says',
  async () => {
    const folder = newFolder();
    const at = (name: string) => join(folder, name);
    makeAuthority(folder, 'authority');
    makeCertificate(folder, 'server', 'authority');
    writeFileSync(at('password'), 'secret\n');
    const web = {
      tls_server_config: { cert_file: 'server.pem', key_file: 'server.key' },
      basic_auth_users: { prometheus: hashSync('secret', 4) },
    };
    writeFileSync(at('web.yaml'), JSON.stringify(web));
    const agent = createAgent(
      {
        server: { listen: '127.0.0.1:0', webConfigFile: at('web.yaml') },
        accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } }],
      },
      { DELIVERY_TOKEN: 'x' },
    );
    const { host } = new URL(await agent.start());
    const here = (yaml: string) =>
      expanded(yaml)
        .replaceAll('dw.example.com:10922', host)
        .replaceAll('/etc/otelcol/delivery-watch-ca.crt', at('authority.pem'))
        .replaceAll('/etc/otelcol/delivery-watch-password', at('password'))
        .replaceAll('scrape_interval: 15s', 'scrape_interval: 1s');
    const { receivers } = Collector.parse(parse(here(recipe)));
    const one = await startPrometheus({ scrapeConfigs: receivers.prometheus.config.scrape_configs });
    afterThisTest(() => one.stop());
    const many = await startPrometheus({ scrapeConfigs: parse(here(manyAccounts)) });
    afterThisTest(() => many.stop());
    const instancesUp = async ({ query }: typeof one) =>
      (await query('up{job="delivery-watch"} == 1')).map(({ metric }) => metric.instance).sort();
    await eventually(async () => {
      expect(await instancesUp(one)).toEqual([host]);
      expect(await instancesUp(many)).toEqual([host, 'delivery-watch/a'].sort());
      for (const { query } of [one, many]) {
        expect(await query('delivery_up{account="a"}')).toHaveLength(1);
        expect(await query('delivery_watch_build_info')).toHaveLength(1);
      }
    });
  },
);
