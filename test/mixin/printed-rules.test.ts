import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { runCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';
import { parsePython, pyYamlIsThere } from '../support/py-yaml.ts';
import { promtools } from './promtool.ts';

interface RuleGroup {
  readonly name: string;
  readonly interval?: string;
  readonly rules: readonly {
    readonly alert?: string;
    readonly record?: string;
    readonly expr: string;
    readonly labels?: object;
    readonly annotations?: Readonly<Record<string, string>>;
  }[];
}
const groupsIn = (text: string) => (parse(text) as { groups: RuleGroup[] }).groups;
const rulesIn = (text: string) => groupsIn(text).flatMap(({ rules }) => rules);

const config = {
  accounts: [{ name: 'a', baseUrl: 'https://delivery.example.com', token: { env: 'TOKEN' } }],
  alerts: {
    evaluateEvery: '20s',
    rules: [{ name: 'Many', when: { above: { metric: 'delivery_dlq_messages', value: 5 } }, labels: { cluster: 'x' } }],
  },
};

describe('printed rules', () => {
  it.each([
    [[], ['alerting']],
    [['--set', 'slo'], ['slo']],
    [
      ['--set', 'slo, default'],
      ['alerting', 'slo'],
    ],
  ])('rules print %j outputs dashboards/rules/%j.yaml', async (options, files) => {
    const { code, stdout } = await runCli(['rules', 'print', ...options]);
    expect(code).toBe(0);
    expect(groupsIn(stdout)).toEqual(
      files.flatMap(name => groupsIn(readFileSync(`dashboards/rules/${name}.yaml`, 'utf8'))),
    );
    expect(parse(stdout, { version: '1.1', merge: false })).toEqual(parse(stdout));
  });

  it.skipIf(!pyYamlIsThere())(
    'rules print outputs texts that a parser of YAML 1.1 reads as the same texts',
    async () => {
      const file = join(newFolder(), 'config.yaml');
      const [rule] = config.alerts.rules;
      const labels = { team: 'on', shift: '12:30:45', since: '2027-01-02', code: '0123', rate: '1_000', empty: '~' };
      const rules = [{ ...rule, labels, annotations: { summary: 'yes', note: '= {{ $labels.account }}' } }];
      writeFileSync(file, JSON.stringify({ ...config, alerts: { ...config.alerts, rules } }));
      const { stdout } = await runCli(['rules', 'print', '--set', 'default,slo', '--config', file]);
      const last = rulesIn(stdout).at(-1);
      expect([last?.labels, last?.annotations]).toEqual([labels, rules[0]?.annotations]);
      expect(parsePython(stdout)).toEqual(parse(stdout));
    },
  );

  it.each(['sloe', 'slo,', ''])('rules print rejects the sets "%s" and names the allowed ones', async sets => {
    const { code, stderr } = await runCli(['rules', 'print', '--set', sets]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/Unknown: "(sloe)?"\. Allowed: default, slo\./)]);
  });

  it('rules print inserts configured alerts, the job and the addresses of links', async () => {
    const file = join(newFolder(), 'config.yaml');
    writeFileSync(file, JSON.stringify(config));
    const places = ['--job', 'dw', '--runbooks', 'https://wiki.example/r/', '--grafana', 'https://g.example'];
    const { code, stdout } = await runCli(['rules', 'print', '--config', file, ...places]);
    expect(code).toBe(0);
    expect(stdout).not.toContain('job="delivery-watch"');
    const last = groupsIn(stdout).at(-1);
    expect(last).toMatchObject({ name: 'delivery-configured', interval: '20s' });
    expect(last?.rules.at(-1)?.alert).toBe('Many');
    expect(last?.rules.at(-1)?.expr).toBe('max by (cluster, namespace, job, account) (delivery_dlq_messages) > 5');
    const rule = (name: string) => rulesIn(stdout).find(({ alert, record }) => alert === name || record === name);
    expect(rule('DeliveryAgentDown')?.expr).toBe('absent(up{job="dw"} == 1)');
    expect(rule('DeliveryBlind')?.annotations).toMatchObject({
      runbook_url: 'https://wiki.example/r/DeliveryBlind.md',
      dashboard_url: expect.stringMatching(/^https:\/\/g\.example\/d\//),
    });
    const records = rulesIn(stdout).flatMap(({ record, labels }) => (record ? JSON.stringify([record, labels]) : []));
    expect(records.length).toBe(new Set(records).size);
    writeFileSync(`${file}.rules`, stdout);
    for (const promtool of promtools)
      expect(execFileSync(promtool, ['check', 'rules', `${file}.rules`], { encoding: 'utf8' })).toContain('SUCCESS');
  });

  it('rules print outputs links to the runbooks and pages of the agent if externalUrl is configured', async () => {
    const file = join(newFolder(), 'config.yaml');
    writeFileSync(file, JSON.stringify({ ...config, server: { externalUrl: 'https://dw.example.com/' } }));
    const { stdout } = await runCli(['rules', 'print', '--config', file]);
    const blind = rulesIn(stdout).find(({ alert }) => alert === 'DeliveryBlind');
    expect(blind?.annotations).toMatchObject({
      runbook_url: 'https://dw.example.com/runbooks/DeliveryBlind.md',
      status_url: 'https://dw.example.com/{{ with $labels.account }}accounts/{{ . }}{{ end }}',
    });
  });

  it('rules print omits links if no addresses are configured', async () => {
    const { stdout } = await runCli(['rules', 'print']);
    expect(stdout).not.toMatch(/_url:|example\.com/);
  });

  it('rules print warns if a configured alert has the same name as a shipped one', async () => {
    const file = join(newFolder(), 'config.yaml');
    const rules = config.alerts.rules.map(rule => ({ ...rule, name: 'DeliveryAgentDown' }));
    writeFileSync(file, JSON.stringify({ ...config, alerts: { rules } }));
    const { code, stderr } = await runCli(['rules', 'print', '--config', file]);
    expect([code, stderr]).toEqual([0, expect.stringContaining('warning: the alert DeliveryAgentDown')]);
  });

  it.each(['{{ .Labels }}', ''])('rules print rejects the job "%s"', async job => {
    const { code, stderr } = await runCli(['rules', 'print', '--job', job]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('must be the name of a scrape job')]);
  });

  it.each(['ftp://x', 'wiki', 'https://x/{{ .Labels }}', 'https://x/?a=b'])(
    'rules print rejects the link %s',
    async link => {
      const { code, stderr } = await runCli(['rules', 'print', '--runbooks', link]);
      expect([code, stderr]).toEqual([2, expect.stringContaining('must be an http or https address')]);
    },
  );
});
