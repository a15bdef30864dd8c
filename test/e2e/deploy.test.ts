import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseConfig } from '../../src/config/load.ts';
import { requireProgram } from '../support/prometheus.ts';

function run(program: string, ...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  return { status, output: stdout + stderr };
}

describe('deploy/', () => {
  it.skipIf(!requireProgram('promtool'))('has a configuration that Prometheus takes, rules included', () => {
    const { status, output } = run('promtool', 'check', 'config', 'deploy/prometheus.yml');
    expect(output).toMatch(/SUCCESS: 2 rule files found/);
    expect(status).toBe(0);
  });

  it.skipIf(!requireProgram('amtool'))('has a configuration that Alertmanager takes', () => {
    const { status, output } = run('amtool', 'check-config', 'deploy/alertmanager.yml');
    expect(output).toContain('SUCCESS');
    expect(status).toBe(0);
  });

  it('has a configuration that the agent takes', () => {
    const { config } = parseConfig(readFileSync('deploy/config.yaml', 'utf8'), 'deploy/config.yaml', {});
    expect(config.accounts).toHaveLength(1);
  });

  it('mounts what is there', () => {
    const { services } = parse(readFileSync('deploy/compose.yaml', 'utf8')) as {
      services: Record<string, { volumes: string[] }>;
    };
    const mounted = Object.values(services)
      .flatMap(({ volumes }) => volumes.map(volume => volume.split(':')[0] as string))
      .filter(path => path.startsWith('.') && path !== './secrets');
    expect(mounted.length).toBeGreaterThan(5);
    expect(mounted.filter(path => !existsSync(join('deploy', path)))).toEqual([]);
  });
});
