import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mainFile } from '../support/bundle.ts';

const npm = (args: string[], cwd: string) => execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: 'pipe' });

/** Installs a tarball offline, which works only if it has no dependencies. */
function install(tarball: string, folder: string): void {
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  npm(['install', '--ignore-scripts', '--offline', '--no-audit', '--no-fund', tarball], folder);
}

describe('npm package', () => {
  let folder = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'delivery-watch-package-'));
    npm(['pack', dirname(mainFile()), '--pack-destination', folder], folder);
    const [filename = ''] = globSync('*.tgz', { cwd: folder });
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
  const run = (...args: string[]) =>
    execFileSync(installed('.bin', 'delivery-watch'), args, {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env.PATH, DELIVERY_TOKEN: 'x' },
    });

  it('the package contains the program, its documents, licences and bill of materials, and has no dependencies', () => {
    expect(readdirSync(installed('delivery-watch')).sort()).toEqual(
      [
        ...['CHANGELOG.md', 'LICENSE', 'README.md', 'SECURITY.md', 'THIRD-PARTY-LICENSES'],
        ...[
          'chunks',
          'config.example.yaml',
          'config.schema.json',
          'dashboards',
          'deploy',
          'docs',
          'examples',
          'main.js',
        ],
        ...['package.json', 'sbom.cdx.json'],
      ].sort(),
    );
    const read = (file: string) => JSON.parse(readFileSync(file, 'utf8'));
    const { name, version, license, engines } = read('package.json');
    const manifest = read(installed('delivery-watch', 'package.json'));
    expect(manifest).toMatchObject({ name, version, license, engines, bin: { 'delivery-watch': 'main.js' } });
    expect(Object.keys(manifest).filter(key => /dependencies|scripts/i.test(key))).toEqual([]);
    expect(readdirSync(installed()).filter(each => !each.startsWith('.'))).toEqual(['delivery-watch']);
  });

  it('the package contains every page, picture and file that its pages link to', () => {
    const root = installed('delivery-watch');
    const missing = globSync('**/*.md', { cwd: root }).flatMap(page =>
      [...readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)]
        .map(([, link = '']) => join(dirname(page), link))
        .filter(link => !existsSync(join(root, link)))
        .map(link => `${page} links to ${link}`),
    );
    expect(missing).toEqual([]);
    const pictures = [...readFileSync(join(root, 'README.md'), 'utf8').matchAll(/src(?:set)?="([^"]+)"/g)];
    expect(pictures.length).toBeGreaterThan(0);
    for (const [, picture = ''] of pictures) expect(existsSync(join(root, picture)), picture).toBe(true);
  });

  it('the packaged agent requires a password, which a worker thread verifies', async () => {
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

  it('the package runs the demo from another folder', async () => {
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
    expect(await (await fetch(`${page}runbooks/DeliveryTokenRejected`)).text()).toContain('<p>Do: ');
    demo.kill('SIGTERM');
    expect(await once(demo, 'exit')).toEqual([0, null]);
  });

  it('the packaged program checks a configuration, starts an agent with it and prints its rules', async () => {
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
});

it('the Dockerfile copies existing files, sets a user other than root and starts the packaged program', () => {
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  for (const pattern of readFileSync('.dockerignore', 'utf8').match(/(?<=^!).+$/gm) ?? []) {
    expect(globSync(pattern), pattern).not.toEqual([]);
  }
  expect(dockerfile).toMatch(/^USER 1000:1000$/m);
  expect(dockerfile).toMatch(/^HEALTHCHECK /m);
  expect(dockerfile).toMatch(/^COPY --from=build \/build\/dist \.\/$/m);
  expect(dockerfile).toContain('ENTRYPOINT ["node", "main.js"]');
});
