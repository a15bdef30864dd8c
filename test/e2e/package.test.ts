import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { hashSync } from 'bcryptjs';
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

const npm = (args: string[], cwd: string) => execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: 'pipe' });

/** Installs a package with what it needs to run, and nothing else: from the registry, or where that can't be reached, what is here. */
function install(tarball: string, folder: string): void {
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  const options = [
    '--ignore-scripts',
    '--omit=dev',
    '--prefer-offline',
    '--fetch-retries=0',
    '--no-audit',
    '--no-fund',
  ];
  try {
    npm(['install', ...options, tarball], folder);
    return;
  } catch (error) {
    if (
      !/E(NOTFOUND|AI_AGAIN|CONN\w+|TIMEDOUT|NETUNREACH|NOTCACHED)/.test(String((error as { stderr: unknown }).stderr))
    )
      throw error;
  }
  process.stderr.write('the registry can not be reached: the package gets the dependencies that are installed here\n');
  const [here = '', ...needed] = npm(['ls', '--omit=dev', '--all', '--parseable'], process.cwd()).trim().split('\n');
  for (const path of needed) {
    const skipNested = (source: string) => !source.slice(path.length).includes('/node_modules');
    cpSync(path, join(folder, path.slice(here.length)), { recursive: true, filter: skipNested });
  }
  const own = join(folder, 'node_modules', 'delivery-watch');
  mkdirSync(own);
  mkdirSync(join(folder, 'node_modules', '.bin'), { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', own]);
  chmodSync(join(own, 'dist', 'main.js'), 0o755);
  symlinkSync('../delivery-watch/dist/main.js', join(folder, 'node_modules', '.bin', 'delivery-watch'));
}

describe('the package', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'delivery-watch-package-'));
    const [{ filename }] = JSON.parse(
      npm(['pack', '--json', '--pack-destination', folder], process.cwd()).replace(/^[^[]*/s, ''),
    );
    install(join(folder, filename), folder);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const installed = (...path: string[]) => join(folder, 'node_modules', ...path);
  const start = (...args: string[]) =>
    spawn(installed('.bin', 'delivery-watch'), args, {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH, DELIVERY_TOKEN: 'x' },
    });
  /** Runs a command to its end. */
  const run = (...args: string[]) =>
    execFileSync(installed('.bin', 'delivery-watch'), args, {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env.PATH, DELIVERY_TOKEN: 'x' },
    });

  it('holds what runs and what explains it, and no sources, tests or development packages', () => {
    expect(readdirSync(installed('delivery-watch')).sort()).toEqual(
      [
        ...['CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md', 'SECURITY.md', 'bench', 'config.example.yaml'],
        ...['config.schema.json', 'dashboards', 'deploy', 'dist', 'docs', 'examples', 'package.json'],
      ].sort(),
    );
    expect(existsSync(installed('delivery-watch', 'dist', 'main.js'))).toBe(true);
    for (const name of ['vitest', 'typescript', 'fast-check']) expect(existsSync(installed(name)), name).toBe(false);
  });

  it('holds every page and file that its pages link to', () => {
    const root = installed('delivery-watch');
    const missing = globSync('{README.md,SECURITY.md,CHANGELOG.md,docs/*.md,docs/runbooks/*.md}', {
      cwd: root,
    }).flatMap(page =>
      [...readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)]
        .map(([, link = '']) => join(dirname(page), link))
        // Pictures of the other dashboards are four times as large as everything else.
        .filter(link => !link.startsWith('docs/images/') && !existsSync(join(root, link)))
        .map(link => `${page} links to ${link}`),
    );
    expect(missing).toEqual([]);
    const pictures = [...readFileSync(join(root, 'README.md'), 'utf8').matchAll(/src(?:set)?="([^"]+)"/g)];
    expect(pictures.length).toBeGreaterThan(0);
    for (const [, picture = ''] of pictures) expect(existsSync(join(root, picture)), picture).toBe(true);
  });

  it('asks for a password, which a thread of its own compares', async () => {
    const account = { name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } };
    const server = { listen: '127.0.0.1:0', webConfigFile: join(folder, 'web.yaml') };
    writeFileSync(server.webConfigFile, JSON.stringify({ basic_auth_users: { alice: hashSync('secret', 4) } }));
    const config = { server, accounts: [account], store: { kind: 'memory' } };
    writeFileSync(join(folder, 'protected.yaml'), JSON.stringify(config));
    const agent = start('serve', '--config', 'protected.yaml');
    let log = '';
    for await (const chunk of agent.stderr) {
      log += chunk;
      if (log.includes('is listening')) break;
    }
    const [, url] = /"url":"([^"]+)"/.exec(log) ?? [];
    const ask = async (password: string) => {
      const authorization = `Basic ${btoa(`alice:${password}`)}`;
      return (await fetch(`${url}/-/ready`, { headers: { authorization } })).status;
    };
    expect([await ask('secret'), await ask('other')]).toEqual([200, 401]);
    agent.kill('SIGTERM');
    expect(await once(agent, 'exit')).toEqual([0, null]);
  });

  it('runs the demo elsewhere', async () => {
    const demo = start('demo', '--listen', '127.0.0.1:0');
    let out = '';
    for await (const chunk of demo.stdout) {
      out += chunk;
      if (out.includes('Ctrl-C')) break;
    }
    const [, page = ''] = /status page\s+(\S+)/.exec(out) ?? [];
    expect(await (await fetch(`${page}-/ready`)).text()).toBe('delivery-watch is ready\n');
    const text = await (await fetch(page)).text();
    const [, assets = ''] = /href="(assets\/\w+\/)style\.css"/.exec(text) ?? [];
    for (const needed of ['style.css', 'client.js', 'age.js', 'uplot.js', 'uplot.css']) {
      expect((await fetch(page + assets + needed)).status, needed).toBe(200);
    }
    expect(await (await fetch(`${page}runbooks/DeliveryTokenRejected`)).text()).toContain('<h2>What to do</h2>');
    demo.kill('SIGTERM');
    expect(await once(demo, 'exit')).toEqual([0, null]);
  });

  it('checks a configuration, serves it, and prints its rules', async () => {
    const account = { name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } };
    writeFileSync(
      join(folder, 'config.yaml'),
      JSON.stringify({ server: { listen: '127.0.0.1:0' }, accounts: [account] }),
    );
    expect(run('check-config', 'config.yaml')).toBe('config.yaml is valid: 1 account (a)\n');
    expect(run('rules', 'print', '--config', 'config.yaml')).toMatch(/^ *- alert: DeliveryBlind$/m);
    // The help loads every command.
    expect(run('--help')).toMatch(/^ {2}doctor /m);
    const agent = start('serve', '--config', 'config.yaml');
    let log = '';
    for await (const chunk of agent.stderr) {
      log += chunk;
      if (log.includes('is listening')) break;
    }
    const [, url = ''] = /"url":"([^"]+)"/.exec(log) ?? [];
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('delivery_up{account="a"} 0');
    agent.kill('SIGTERM');
    expect(await once(agent, 'exit')).toEqual([0, null]);
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
