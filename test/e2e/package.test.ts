import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** A Node.js older than ours, where the machine has one beside it. */
function oldNode(): string | undefined {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const node = join(folder, 'node');
    if (!existsSync(node)) continue;
    const major = Number(execFileSync(node, ['-p', 'process.versions.node.split(".")[0]'], { encoding: 'utf8' }));
    if (major < 24) return node;
  }
  process.stderr.write('skipped: the refusal of old versions, since no Node.js before 24 is installed\n');
  return undefined;
}

describe('the package', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'delivery-watch-package-'));
    const npm = (args: string[], cwd: string) => execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: 'pipe' });
    const [{ filename }] = JSON.parse(
      npm(['pack', '--json', '--pack-destination', folder], process.cwd()).replace(/^[^[]*/s, ''),
    );
    writeFileSync(join(folder, 'package.json'), '{"private": true}');
    npm(['install', '--omit=dev', '--no-audit', '--no-fund', join(folder, filename)], folder);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const installed = (...path: string[]) => join(folder, 'node_modules', ...path);

  it('holds what runs and no sources, tests or development packages', () => {
    expect(existsSync(installed('delivery-watch', 'dist', 'main.js'))).toBe(true);
    expect(existsSync(installed('delivery-watch', 'src'))).toBe(false);
    expect(existsSync(installed('delivery-watch', 'test'))).toBe(false);
    expect(existsSync(installed('vitest'))).toBe(false);
  });

  it('runs the demo elsewhere', async () => {
    const demo = spawn(installed('.bin', 'delivery-watch'), ['demo', '--listen', '127.0.0.1:0'], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let out = '';
    for await (const chunk of demo.stdout) {
      out += chunk;
      if (out.includes('Ctrl-C')) break;
    }
    const [, page = ''] = /status page\s+(\S+)/.exec(out) ?? [];
    expect(await (await fetch(`${page}-/ready`)).text()).toBe('delivery-watch is ready\n');
    demo.kill('SIGTERM');
    expect(await once(demo, 'exit')).toEqual([0, null]);
  });

  const old = oldNode();
  it.skipIf(!old)('says what it needs to an old Node.js', () => {
    const { status, stderr } = spawnSync(old as string, [installed('delivery-watch', 'dist', 'main.js'), 'demo'], {
      encoding: 'utf8',
    });
    expect(stderr).toMatch(/^delivery-watch needs Node\.js 24 or newer; this is \d+\.\d+\.\d+\n$/);
    expect(status).toBe(2);
  });
});

it('the image is built from files that exist, runs as another user, and starts what the package starts', () => {
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  const ignored = readFileSync('.dockerignore', 'utf8').split('\n');
  for (const [, sources = ''] of dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)) {
    for (const source of sources.split(' ')) {
      expect(existsSync(source), source).toBe(true);
      expect(ignored).toContain(`!${source}`);
    }
  }
  expect(dockerfile).toMatch(/^USER 1000:1000$/m);
  expect(dockerfile).toMatch(/^HEALTHCHECK /m);
  const { bin } = JSON.parse(readFileSync('package.json', 'utf8'));
  expect(dockerfile).toContain(`ENTRYPOINT ["node", "${bin['delivery-watch']}"]`);
});
