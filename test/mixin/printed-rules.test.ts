import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ALERT_SETS, DEFAULT_OBJECTIVES, shippedDashboards } from '../../src/cli/shipped.ts';
import { runCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';
import { requireProgram } from '../support/prometheus.ts';

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
  it('rules print outputs recording.yaml and alerting.yaml of dashboards/rules by default', async () => {
    const { code, stdout } = await runCli(['rules', 'print']);
    expect(code).toBe(0);
    const files = ['recording', 'alerting'].map(name => readFileSync(`dashboards/rules/${name}.yaml`, 'utf8'));
    expect(groupsIn(stdout)).toEqual(files.flatMap(groupsIn));
  });

  it('rules print outputs the alerts of the selected sets, and only the recording rules that they or the dashboards use', async () => {
    const { code, stdout } = await runCli(['rules', 'print', '--set', 'schedules, core']);
    expect(code).toBe(0);
    const printed = groupsIn(stdout);
    const withAlerts = printed.filter(({ rules }) => rules.some(({ alert }) => alert));
    expect(withAlerts.map(({ name }) => name)).toEqual(['delivery-core', 'delivery-schedules']);
    const shipped = groupsIn(readFileSync('dashboards/rules/alerting.yaml', 'utf8'));
    expect(withAlerts).toEqual(shipped.filter(({ name }) => /-(core|schedules)$/.test(name)));
    const recorded = printed.flatMap(({ rules }) => rules.flatMap(({ record }) => record ?? []));
    expect(recorded).toContain('account:delivery_burn:ratio1h');
    // Only DeliveryWaitlistStalled uses this record.
    expect(recorded).not.toContain('account_key:delivery_limited:max');
  });

  it.each(ALERT_SETS)(
    'rules print outputs every recording rule that the alerts of the set %s and the dashboards use',
    async set => {
      const { stdout } = await runCli(['rules', 'print', '--set', set]);
      const rules = rulesIn(stdout);
      const names = new Set(rules.flatMap(({ record }) => record ?? []));
      const dashboards = JSON.stringify(shippedDashboards({ objectives: DEFAULT_OBJECTIVES }));
      const read = [dashboards, ...rules.map(({ expr, annotations }) => `${expr} ${JSON.stringify(annotations)}`)]
        .flatMap(text => text.match(/(?:replica|account|account_key):delivery[\w:]+/g) ?? [])
        .filter(name => !names.has(name));
      expect(read).toEqual([]);
      if (!requireProgram('promtool')) return;
      const file = join(newFolder(), 'rules.yaml');
      writeFileSync(file, stdout);
      expect(execFileSync('promtool', ['check', 'rules', file], { encoding: 'utf8' })).toContain('SUCCESS');
    },
  );

  it.each(['cores', 'core,', ''])('rules print rejects the sets "%s" and names the allowed ones', async sets => {
    const { code, stderr } = await runCli(['rules', 'print', '--set', sets]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/unknown: "(cores)?"\. Allowed: core, postgresql, /)]);
  });

  it('rules print inserts configured alerts, the job and the addresses of links', async () => {
    const file = join(newFolder(), 'config.yaml');
    writeFileSync(file, JSON.stringify(config));
    const places = ['--job', 'dw', '--runbooks', 'https://wiki.example/r/', '--grafana', 'https://g.example'];
    const { code, stdout } = await runCli(['rules', 'print', '--config', file, ...places]);
    expect(code).toBe(0);
    expect(stdout).not.toContain('job="delivery-watch"');
    const [first] = groupsIn(stdout);
    expect(first).toMatchObject({ name: 'delivery-watch', interval: '20s' });
    expect(first?.rules.at(-1)?.alert).toBe('Many');
    // The alert's own label `cluster` replaces that of the target, so the expression must not match on it.
    expect(first?.rules.at(-1)?.expr).toContain('and on (namespace, job, account) (');
    const rule = (name: string) => rulesIn(stdout).find(({ alert, record }) => alert === name || record === name);
    expect(rule('DeliveryAgentDown')?.expr).toBe('absent(up{job="dw"} == 1)');
    expect(rule('DeliveryBlind')?.annotations).toMatchObject({
      runbook_url: 'https://wiki.example/r/DeliveryBlind.md',
      dashboard_url: expect.stringMatching(/^https:\/\/g\.example\/d\//),
    });
    const records = rulesIn(stdout).flatMap(({ record, labels }) => (record ? JSON.stringify([record, labels]) : []));
    expect(records.length).toBe(new Set(records).size);
    if (!requireProgram('promtool')) return;
    writeFileSync(`${file}.rules`, stdout);
    expect(execFileSync('promtool', ['check', 'rules', `${file}.rules`], { encoding: 'utf8' })).toContain('SUCCESS');
  });

  it("rules print outputs links to the agent's runbooks if externalUrl is configured", async () => {
    const file = join(newFolder(), 'config.yaml');
    writeFileSync(file, JSON.stringify({ ...config, server: { externalUrl: 'https://dw.example.com/' } }));
    const { stdout } = await runCli(['rules', 'print', '--config', file]);
    const blind = rulesIn(stdout).find(({ alert }) => alert === 'DeliveryBlind');
    expect(blind?.annotations?.runbook_url).toBe('https://dw.example.com/runbooks/DeliveryBlind.md');
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
