import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mainFile } from '../support/bundle.ts';
import { newFolder } from '../support/folder.ts';
import { sbomErrors } from '../support/sbom.ts';

describe('bundle', () => {
  const main = mainFile();
  const folder = dirname(dirname(main));

  const run = (...args: string[]) =>
    execFileSync(process.execPath, [main, ...args], { cwd: folder, encoding: 'utf8', maxBuffer: 2 ** 24 });

  it('the bundle prints the same output as the sources', () => {
    const fromSources = (...args: string[]) =>
      execFileSync(process.execPath, ['src/main.ts', ...args], { encoding: 'utf8', maxBuffer: 2 ** 24 });
    for (const args of [['--version'], ['rules', 'print'], ['emulate', '--help']]) {
      expect(run(...args)).toBe(fromSources(...args));
    }
  });

  it('the bundle contains the licence of each package', () => {
    const sections = readFileSync(join(folder, 'dist', 'THIRD-PARTY-LICENSES'), 'utf8').split(
      `\n${'-'.repeat(80)}\n\n`,
    );
    const names = sections.flatMap(section =>
      [...section.matchAll(/^(\S+) \d+\.\d+\.\S+ \(.+\)$/gm)].map(([, name]) => name),
    );
    expect(names).toEqual(
      expect.arrayContaining(['express', 'undici', 'zod', 'yaml', 'prom-client', '@opentelemetry/api', 'uplot']),
    );
    for (const section of sections) expect(section).toMatch(/licen[cs]e|permission/i);
  });

  it('the bill of materials is valid and lists every bundled library, each a production dependency of the lockfile', () => {
    const read = (file: string) => JSON.parse(readFileSync(file, 'utf8'));
    const sbom = read(join(folder, 'dist', 'sbom.cdx.json'));
    expect(sbomErrors(sbom)).toBe('[]');

    const { packages } = read('package-lock.json');
    const modules: string[] = read(join(folder, 'modules.json'));
    const keys = modules.flatMap(file => /^.*(node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.slice(0, 1) ?? []);
    const used = new Set(keys.map(key => relative(process.cwd(), key)));
    expect(used.size).toBeGreaterThan(50);
    const purls = new Set(sbom.components.map(({ purl }: { purl: string }) => purl));
    for (const key of used) {
      expect(packages[key], key).toMatchObject({ version: expect.any(String) });
      expect(packages[key]).not.toHaveProperty('dev');
      const name = key.replace(/^.*node_modules\//, '').replace('@', '%40');
      expect(purls).toContain(`pkg:npm/${name}@${packages[key].version}`);
    }
    // The chart library is served to browsers as separate files, so it is not among the bundled modules.
    expect([...purls].filter(purl => `${purl}`.startsWith('pkg:npm/uplot@'))).toHaveLength(1);
    expect(purls.size).toBe(used.size + 1);
    const refs = new Set([...purls, sbom.metadata.component.purl]);
    for (const { ref, dependsOn } of sbom.dependencies) {
      for (const each of [ref, ...dependsOn]) expect(refs).toContain(each);
    }
  });

  it('the bundle uses little memory and loads no modules that the configuration does not need', async () => {
    const account = { name: 'production', baseUrl: 'http://127.0.0.1:1', token: { env: 'TOKEN' } };
    const config = { server: { listen: '127.0.0.1:0' }, accounts: [account] };
    const own = newFolder();
    writeFileSync(join(own, 'config.yaml'), JSON.stringify(config));
    const loaded = join(own, 'loaded.json');
    const report = `process.on('exit', () => require('node:fs').writeFileSync(${JSON.stringify(loaded)}, JSON.stringify(Object.keys(require.cache))));`;
    writeFileSync(join(own, 'report.cjs'), report);
    const args = ['--require', join(own, 'report.cjs'), main, 'serve', '--config', 'config.yaml'];
    const agent = spawn(process.execPath, args, {
      cwd: own,
      env: { TOKEN: 'token' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let log = '';
    for await (const chunk of agent.stderr) {
      log += chunk;
      if (log.includes('is listening')) break;
    }
    const [, url = ''] = /"url":"([^"]+)"/.exec(log) ?? [];
    const metrics = await (await fetch(`${url}/metrics`)).text();
    agent.kill('SIGTERM');
    await once(agent, 'exit');
    const texts = (JSON.parse(readFileSync(loaded, 'utf8')) as string[]).map(file => readFileSync(file, 'utf8'));
    expect(texts.length).toBeGreaterThan(5);
    for (const [what, words] of Object.entries({
      emulator: '/_emulator',
      dashboards: 'timeseries',
      OpenTelemetry: 'BatchSpanProcessor',
    })) {
      expect(
        texts.filter(text => text.includes(words)),
        what,
      ).toEqual([]);
    }
    expect(Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)?.[1])).toBeLessThan(110 * 2 ** 20);
  });
});
