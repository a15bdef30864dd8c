import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { parseConfig } from '../../src/config/load.ts';
import { knownSeries } from '../mixin/known-series.ts';
import { parsePromql } from '../mixin/parse-promql.ts';
import { createAgent } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { makeAuthority, makeCertificate } from '../support/openssl.ts';
import { requireProgram, startPrometheus } from '../support/prometheus.ts';

const document = readFileSync('docs/integrations.md', 'utf8');
const blocksOf = (language: string) =>
  [...document.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, of, text = '']) => (of === language ? [text] : []));
const [recipe = '', manyAccounts = '', datadog = '', keda = '', canary = '', tracing = ''] = blocksOf('yaml');

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

/**
 * The keys that the recipe for the Datadog Agent may use. Source: openmetrics/datadog_checks/openmetrics/config_models/instance.py
 * of DataDog/integrations-core.
 */
const DatadogCheck = z.strictObject({
  init_config: z.strictObject({}),
  instances: z.array(
    z.strictObject({
      openmetrics_endpoint: z.url(),
      namespace: z.string().regex(/^\w*$/),
      metrics: z.array(z.string()).min(1),
      tls_ca_cert: z.string(),
      username: z.string(),
      password: z.string(),
    }),
  ),
});

/**
 * The keys that the recipe for KEDA may use. Sources: config/crd/bases/keda.sh_scaledobjects.yaml and
 * pkg/scalers/prometheus_scaler.go of kedacore/keda.
 */
const ScaledObject = z.strictObject({
  apiVersion: z.literal('keda.sh/v1alpha1'),
  kind: z.literal('ScaledObject'),
  metadata: z.strictObject({ name: z.string() }),
  spec: z.strictObject({
    scaleTargetRef: z.strictObject({ name: z.string() }),
    minReplicaCount: z.int(),
    maxReplicaCount: z.int(),
    fallback: z.strictObject({ failureThreshold: z.int(), replicas: z.int() }),
    triggers: z.tuple([
      z.strictObject({
        type: z.literal('prometheus'),
        metadata: z.strictObject({
          serverAddress: z.url(),
          query: z.string(),
          threshold: z.string(),
          ignoreNullValues: z.string(),
        }),
      }),
    ]),
  }),
});

/**
 * The names that the recipe for Alloy may use. Source: docs/sources/reference/components/prometheus/prometheus.scrape.md and
 * prometheus.remote_write.md of grafana/alloy, and the shared pages on tls_config and basic_auth.
 */
const ALLOY_NAMES = new Set([
  ...['targets', 'job_name', 'scrape_interval', 'scheme', 'forward_to', 'tls_config', 'basic_auth'],
  ...['ca_file', 'username', 'password_file', 'endpoint', 'url'],
]);

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

it('the recipe for the Datadog Agent uses documented keys and existing metrics, and omits the suffix _total', () => {
  const { instances } = DatadogCheck.parse(parse(datadog));
  for (const name of instances.flatMap(({ metrics }) => metrics)) {
    expect(name).not.toMatch(/_total$/);
    expect(knownSeries.has(name) || knownSeries.has(`${name}_total`), name).toBe(true);
  }
});

it('the recipe for KEDA is a ScaledObject, and its query selects an existing metric by existing labels', () => {
  const { query } = ScaledObject.parse(parse(keda)).spec.triggers[0].metadata;
  const { faults, selectors } = parsePromql(query);
  expect(faults).toEqual([]);
  expect(selectors).toHaveLength(1);
  for (const { name, matchers } of selectors) {
    expect(knownSeries.get(name)).toEqual(expect.arrayContaining(Object.keys(matchers)));
  }
});

it('the recipe for Grafana Alloy uses documented names, and forwards to the component that it defines', () => {
  const [text = ''] = blocksOf('alloy');
  const names = Array.from(text.matchAll(/^ +(\w+) +[={]/gm), ([, name = '']) => name);
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter(name => !ALLOY_NAMES.has(name))).toEqual([]);
  const [, type, label] = /^(prometheus\.remote_write) "(\w+)"/m.exec(text) ?? [];
  expect(text).toContain(`forward_to = [${type}.${label}.receiver]`);
});

it.each([
  ['the canary', canary],
  ['traces', tracing],
])('the configuration for %s is valid', (_what, yaml) => {
  const accounts = [{ name: 'production', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } }];
  const text = JSON.stringify({ accounts, ...parse(yaml) });
  expect(() => parseConfig(text, 'config.yaml', { DELIVERY_TOKEN: 'x', OTLP_AUTHORIZATION: 'x' })).not.toThrow();
});

it.skipIf(!requireProgram('openssl') || !requireProgram('prometheus'))(
  'Prometheus, using the scrape configuration of the Collector recipe, scrapes an agent with TLS and a password',
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
