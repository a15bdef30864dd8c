import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseConfig } from '../../src/config/load.ts';
import { newFolder } from '../support/folder.ts';
import { bothVersions } from '../support/newer-packages.ts';

function runIn(cwd: string | undefined, program: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' });
  return { status, output: stdout + stderr };
}
const run = (program: string, ...args: string[]) => runIn(undefined, program, ...args);

interface PrometheusConfig {
  readonly scrape_configs: readonly object[];
}
function scrapeJobs(text: string) {
  const { scrape_configs: jobs }: PrometheusConfig = parse(text);
  return jobs;
}

/** Returns a scrape job as JSON, with the host `localhost` replaced by `delivery-watch`. */
const ofAnyHost = (job: unknown) => JSON.stringify(job).replaceAll('localhost', 'delivery-watch');

describe('files in deploy/', () => {
  it.each(bothVersions('promtool'))('%s accepts deploy/prometheus.yml, including its rules', promtool => {
    const { status, output } = run(promtool, 'check', 'config', 'deploy/prometheus.yml');
    expect(output).toMatch(/SUCCESS: 1 rule files found/);
    expect(status).toBe(0);
  });

  it.each(bothVersions('promtool'))(
    '%s accepts the result of the command for a host without containers in deploy/prometheus.yml',
    promtool => {
      const text = readFileSync('deploy/prometheus.yml', 'utf8');
      const [command = ''] = /(?<=^# {3})sed .*$/m.exec(text) ?? [];
      const folder = newFolder();
      for (const name of ['deploy', 'dashboards']) cpSync(resolve(name), join(folder, name), { recursive: true });
      expect(runIn(folder, 'sh', '-c', command)).toEqual({ status: 0, output: '' });
      const [file = ''] = /\S+$/.exec(command) ?? [];
      expect(runIn(folder, promtool, 'check', 'config', file)).toMatchObject({ status: 0 });
      const settings = JSON.stringify(parse(readFileSync(join(folder, file), 'utf8')));
      expect(settings.match(/[\w-]+:\d{4,5}/g)).toEqual(['localhost:9093', 'localhost:10922']);
    },
  );

  it('deploy/prometheus.yml defines the same scrape jobs as the README, with and without service discovery', () => {
    const text = readFileSync('deploy/prometheus.yml', 'utf8');
    const commentedOut = [...text.matchAll(/^ {2}# ((?:- | {2}).*)$/gm)].map(([, line]) => line);
    const ways = [scrapeJobs(text), scrapeJobs(['scrape_configs:', ...commentedOut].join('\n'))];
    const blocks = [...readFileSync('README.md', 'utf8').matchAll(/^```yaml\n(scrape_configs:[\s\S]*?)^```$/gm)];
    expect(blocks.map(([, block = '']) => scrapeJobs(block).map(ofAnyHost))).toEqual(
      ways.map(jobs => jobs.map(ofAnyHost)),
    );
  });

  it.each(bothVersions('amtool'))('%s accepts deploy/alertmanager.yml, which pages for critical alerts', amtool => {
    const file = 'deploy/alertmanager.yml';
    const { status, output } = run(amtool, 'check-config', file);
    expect(output).toContain('SUCCESS');
    expect(status).toBe(0);
    const receiver = (severity: string) =>
      run(amtool, 'config', 'routes', 'test', `--config.file=${file}`, 'account=a', `severity=${severity}`).output;
    expect(receiver('critical')).toMatch(/^urgent$/m);
    expect(receiver('warning')).toMatch(/^default$/m);
    expect(receiver('info')).toMatch(/^nowhere$/m);
  });

  it('the agent accepts the configuration in deploy/', () => {
    const { config } = parseConfig(readFileSync('deploy/agent/config.yaml', 'utf8'), 'deploy/agent/config.yaml');
    expect(config.accounts).toHaveLength(1);
  });

  it('the containers in deploy/ mount only existing files', () => {
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
