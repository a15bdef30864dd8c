import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { runCli } from '../../src/cli/cli.ts';
import { newFolder } from '../support/folder.ts';

/** Runs a command; returns its output and exit code. */
async function run(...argv: readonly string[]): Promise<{ readonly code: number; readonly out: string }> {
  const written: string[] = [];
  const write = vi.spyOn(process.stdout, 'write').mockImplementation(text => {
    written.push(String(text));
    return true;
  });
  try {
    return { code: await runCli(argv), out: written.join('') };
  } finally {
    write.mockRestore();
  }
}

const NAMES = ['overview.json', 'dlq.json', 'agent.json'];

describe('dashboards print', () => {
  it('dashboards print outputs the packaged dashboards by default', async () => {
    const { code, out } = await run('dashboards', 'print');
    expect(code).toBe(0);
    const printed = JSON.parse(out);
    expect(Object.keys(printed)).toEqual(NAMES);
    for (const name of NAMES) expect(printed[name]).toEqual(JSON.parse(readFileSync(`dashboards/${name}`, 'utf8')));
  });

  it('dashboards print --dir creates a folder and writes the dashboards to it', async () => {
    const folder = join(newFolder(), 'new');
    const { code, out } = await run('dashboards', 'print', '--dir', folder);
    expect(code).toBe(0);
    expect(out).toBe(NAMES.map(name => `${join(folder, name)}\n`).join(''));
    for (const name of NAMES) {
      expect(readFileSync(join(folder, name), 'utf8')).toBe(readFileSync(`dashboards/${name}`, 'utf8'));
    }
  });

  it.each([
    ['that cannot be created', '/proc/x/y', /ENOENT.*mkdir '\/proc\/x'/],
    ['below a file', join(import.meta.filename, 'x'), /ENOTDIR/],
  ])('dashboards print reports an error for an output folder %s', async (_, folder, why) => {
    const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    expect(await run('dashboards', 'print', '--dir', folder)).toEqual({ code: 1, out: '' });
    const errors = stderr.mock.calls.join('');
    stderr.mockRestore();
    expect(errors).toContain(`can't write dashboards to ${folder}: `);
    expect(errors).toMatch(why);
  });

  it('dashboards print inserts the configured objectives and the given job and links', async () => {
    const folder = newFolder();
    const config = join(folder, 'config.yaml');
    writeFileSync(
      config,
      'accounts: [{ name: a, baseUrl: "https://h.example", token: { env: T } }]\nobjectives: { delivered: 0.9, window: 7d }\n',
    );
    const links = [
      '--runbooks',
      'https://w.example/r/',
      '--grafana',
      'https://g.example/',
      '--traces',
      'https://t.example',
    ];
    const { code, out } = await run('dashboards', 'print', '--config', config, '--job', 'dw', ...links);
    expect(code).toBe(0);
    const overview = JSON.parse(out)['overview.json'];
    const constants = overview.templating.list.filter(({ type }: { type: string }) => type === 'constant');
    expect(constants.map(({ query }: { query: string }) => query)).toEqual([
      'https://w.example/r',
      'https://t.example',
    ]);
    expect(overview.templating.list[1].current.value).toEqual(['dw']);
    expect(overview.links[1].url).toBe('https://g.example/d/delivery-watch-dlq');
    const text = JSON.stringify(overview);
    expect(text).not.toContain('[30d:1h]');
    expect(text).toContain('https://g.example/d/delivery-watch-agent?');
    const failing = overview.panels.find(({ title }: { title: string }) => title === 'Failing most (1 h)');
    expect(failing.fieldConfig.defaults.thresholds.steps[1].value).toBeCloseTo(0.1);
  });

  it('printed dashboards link to the runbooks of the agent only if its external URL is configured', async () => {
    const config = join(newFolder(), 'config.yaml');
    writeFileSync(
      config,
      'accounts: [{ name: a, baseUrl: "https://h.example", token: { env: T } }]\nserver: { externalUrl: "https://dw.example" }\n',
    );
    const linksOf = async (...args: string[]) => {
      const { out } = await run('dashboards', 'print', ...args);
      const { list } = JSON.parse(out)['overview.json'].templating;
      const constants = list.flatMap(({ type, name, query }: Record<string, string>) =>
        type === 'constant' ? [`${name} ${query}`] : [],
      );
      return [...constants, ...(out.match(/\$\{runbooks[^"]*/g) ?? [])];
    };
    expect(await linksOf('--config', config)).toEqual([
      'runbooks https://dw.example/runbooks',
      'traces /explore',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana's own variables.
      '${runbooks:raw}/${__value.text}.md',
    ]);
    expect(await linksOf()).toEqual(['traces /explore']);
  });

  it('dashboards print exits with 2 on a missing configuration file and on an unknown option', async () => {
    const stderr = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    expect((await run('dashboards', 'print', '--config', '/there/is/none.yaml')).code).toBe(2);
    expect((await run('dashboards', 'print', '--nothing')).code).toBe(2);
    stderr.mockRestore();
  });
});
