import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { alerts } from '../../mixin/rules.ts';
import { newFolder } from '../support/folder.ts';
import { shipped } from '../support/shipped-alertmanager.ts';
import { grafanaRules } from './grafana-rules.ts';
import { promtools } from './promtool.ts';

const fileOf = (path: string) => parse(readFileSync(`deploy/grafana/${path}.yaml`, 'utf8'));

const duration = z.string().regex(/^\d+[smh]$/);
const texts = z.record(z.string(), z.string());
const uid = z.string().regex(/^[\w-]{1,40}$/);
const orgId = z.literal(1);
/**
 * The documented fields of provisioning files:
 * https://grafana.com/docs/grafana/latest/alerting/set-up/provision-alerting-resources/file-provisioning/
 */
const query = z.strictObject({
  refId: z.literal('A'),
  relativeTimeRange: z.strictObject({ from: z.int().positive(), to: z.literal(0) }),
  datasourceUid: z.string(),
  model: z.strictObject({
    refId: z.literal('A'),
    expr: z.string(),
    instant: z.literal(true),
    range: z.literal(false),
    editorMode: z.literal('code'),
  }),
});
const threshold = z.strictObject({
  refId: z.literal('B'),
  datasourceUid: z.literal('__expr__'),
  model: z.strictObject({
    refId: z.literal('B'),
    type: z.literal('threshold'),
    expression: z.literal('A'),
    conditions: z.tuple([
      z.strictObject({ evaluator: z.strictObject({ type: z.literal('gt'), params: z.tuple([z.number()]) }) }),
    ]),
  }),
});
const rulesFile = z.strictObject({
  apiVersion: z.literal(1),
  groups: z.tuple([
    z.strictObject({
      orgId,
      name: z.string().min(1),
      folder: z.string().min(1),
      interval: duration,
      rules: z.array(
        z.strictObject({
          uid,
          title: z.string().min(1),
          condition: z.literal('B'),
          data: z.tuple([query, threshold]),
          for: duration,
          noDataState: z.enum(['NoData', 'Alerting', 'OK', 'KeepLast']),
          execErrState: z.enum(['Error', 'Alerting', 'OK', 'KeepLast']),
          missing_series_evals_to_resolve: z.int().positive(),
          labels: texts.optional(),
          annotations: texts,
        }),
      ),
    }),
  ]),
});

const routeFields = {
  receiver: z.string(),
  group_by: z.array(z.string()).optional(),
  group_wait: duration.optional(),
  group_interval: duration.optional(),
  repeat_interval: duration.optional(),
};
const matchers = z.array(z.tuple([z.string(), z.enum(['=', '!=', '=~', '!~']), z.string()]));
const leaf = z.strictObject({ ...routeFields, object_matchers: matchers });
const notificationsFile = z.strictObject({
  apiVersion: z.literal(1),
  contactPoints: z.array(
    z.strictObject({
      orgId,
      name: z.string().min(1),
      receivers: z
        .array(
          z.strictObject({
            uid,
            type: z.literal('webhook'),
            disableResolveMessage: z.boolean().optional(),
            settings: z.strictObject({ url: z.url() }),
          }),
        )
        .min(1),
    }),
  ),
  policies: z.tuple([
    z.strictObject({
      orgId,
      ...routeFields,
      routes: z.array(leaf.extend({ routes: z.array(leaf) })),
    }),
  ]),
});

interface Route {
  readonly receiver?: string;
  readonly matchers?: readonly string[];
  readonly object_matchers?: readonly (readonly string[])[];
  readonly routes?: readonly Route[];
}
const CONTACT_POINTS: Readonly<Record<string, string>> = {
  default: 'delivery-watch',
  urgent: 'delivery-watch-urgent',
};
/** Converts a route of Alertmanager to a policy. Routes inherit their receiver, and policies name it. */
function policyOf({ matchers = [], routes = [], ...route }: Route, inherited = ''): object {
  const receiver = route.receiver ?? inherited;
  return {
    ...route,
    receiver: CONTACT_POINTS[receiver],
    ...(matchers.length > 0 && {
      object_matchers: matchers.map(text => /^(\w+) (=|=~) "(.*)"$/.exec(text)?.slice(1)),
    }),
    ...(routes.length > 0 && {
      routes: routes.filter(({ receiver }) => receiver !== 'nowhere').map(each => policyOf(each, receiver)),
    }),
  };
}

describe('alerts that Grafana evaluates', () => {
  it('the rules have the documented format, the alerts of the default set, and the uid of the provisioned data source', () => {
    expect(rulesFile.parse(fileOf('alerting/rules'))).toBeDefined();
    const rules = grafanaRules();
    expect(rules.map(({ uid }) => uid)).toEqual(alerts.map(({ alert }) => alert));
    const [source] = fileOf('datasources/prometheus').datasources;
    expect(new Set(rules.map(({ data: [query] }) => query.datasourceUid))).toEqual(new Set([source.uid]));
  });

  it('no rule contains a dollar sign, which Grafana would expand, and no rule reads recorded series or ALERTS', () => {
    const text = readFileSync('deploy/grafana/alerting/rules.yaml', 'utf8');
    expect(text).not.toMatch(/\$|\bALERTS\b|delivery:held/);
    expect(text).toContain('The service rejects the token of {{ .Labels.account }}.');
    expect(text).toContain('The schema {{ .Labels.schema }} has {{ .Values.A }} leaders instead of one.');
  });

  it.each(promtools)('%s accepts all expressions', promtool => {
    const file = join(newFolder(), 'rules.yaml');
    const rules = grafanaRules().map(({ title, data: [query] }) => ({ alert: title, expr: query.model.expr }));
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'grafana', rules }] }));
    const { stdout, stderr } = spawnSync(promtool, ['check', 'rules', file], { encoding: 'utf8' });
    expect(stdout, stderr).toContain(`SUCCESS: ${rules.length} rules found`);
  });

  it('contact points and policies have the documented format, and the policies are the routes of deploy/alertmanager.yml', () => {
    const { contactPoints, policies } = notificationsFile.parse(fileOf('alerting/notifications'));
    const [{ orgId: _, ...policy }] = policies;
    expect(policy).toEqual(policyOf(shipped().route));
    expect(contactPoints.map(({ name }) => name)).toEqual(Object.values(CONTACT_POINTS));
  });
});
