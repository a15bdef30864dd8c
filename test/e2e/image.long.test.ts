import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { freePort, requireProgram } from '../support/prometheus.ts';

/** What the image says of how it is run: https://github.com/opencontainers/image-spec, and HEALTHCHECK, which only Docker's format has. */
interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly WorkingDir: string;
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly Healthcheck: { readonly Test: readonly string[] };
  readonly Labels: Readonly<Record<string, string>>;
  readonly Volumes: object;
}

/** Another user than the image's own, as a cluster may choose one. */
const UID = 4711;
const PACKAGE: { readonly version: string } = JSON.parse(readFileSync('package.json', 'utf8'));

const hasAll = ['buildah', 'debootstrap', 'crun'].map(requireProgram).every(Boolean);
const isRoot = process.getuid?.() === 0;
if (!isRoot) process.stderr.write('skipped: the image, since only root can build it\n');

describe.skipIf(!hasAll || !isRoot)('the image', () => {
  let folder = '';
  let image: ImageConfig;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'delivery-watch-image-'));
    const { status, stdout, stderr } = spawnSync('.ci/image', [folder], { encoding: 'utf8' });
    expect(status, stdout + stderr).toBe(0);
    image = JSON.parse(readFileSync(join(folder, 'image.json'), 'utf8')).Docker.config;
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const inside = (path: string) => join(folder, 'root', path);
  const found = (pattern: string) => globSync(pattern, { cwd: inside('.') });

  /** Runs one command of the image as an engine does: another user, no capability, a read-only root, the store alone writable. */
  function start(args: readonly string[], name: string) {
    const bundle = join(folder, name);
    const mount = (source: string, destination: string, ...options: string[]) => ({
      type: 'bind',
      source: join(folder, source),
      destination,
      options: ['bind', ...options],
    });
    mkdirSync(bundle, { recursive: true });
    const spec = {
      ociVersion: '1.0.0',
      process: {
        user: { uid: UID, gid: UID },
        args,
        env: image.Env,
        cwd: image.WorkingDir,
        capabilities: { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] },
        noNewPrivileges: true,
      },
      root: { path: inside('.'), readonly: true },
      mounts: [
        { type: 'proc', source: 'proc', destination: '/proc' },
        { type: 'tmpfs', source: 'tmpfs', destination: '/dev', options: ['nosuid', 'mode=755'] },
        mount('store', '/app/data', 'rw'),
        mount('etc', '/etc/delivery-watch', 'ro'),
      ],
      linux: { namespaces: [{ type: 'pid' }, { type: 'ipc' }, { type: 'mount' }] },
    };
    writeFileSync(join(bundle, 'config.json'), JSON.stringify(spec));
    const state = ['--root', join(folder, 'crun'), '--cgroup-manager', 'disabled'];
    const id = `delivery-watch-${process.pid}-${name}`;
    const child = spawn('crun', [...state, 'run', '--bundle', bundle, id], { stdio: ['ignore', 'pipe', 'pipe'] });
    const said: string[] = [];
    for (const output of [child.stdout, child.stderr]) output.on('data', chunk => said.push(String(chunk)));
    const ended = once(child, 'close').then(([code]) => code);
    const kill = (signal: string) => spawnSync('crun', [...state, 'kill', id, signal]);
    return { said: () => said.join(''), ended, kill };
  }

  it('holds what runs: no npm, no sources, no development package, no shell', () => {
    expect(found('app/*').sort()).toEqual(
      [
        'CHANGELOG.md',
        'LICENSE',
        'config.example.yaml',
        'config.schema.json',
        'data',
        'dist',
        'node_modules',
        'package.json',
      ].map(name => `app/${name}`),
    );
    expect(existsSync(inside('app/dist/main.js'))).toBe(true);
    expect(found('**/{npm,npx,yarn,corepack,sh,bash,dash,apt,dpkg}')).toEqual([]);
    expect(found('app/dist/**/*.ts')).toEqual([]);
    expect(found('app/node_modules/{typescript,vitest,@biomejs,@types,kubernetes-models,node}')).toEqual([]);
  });

  it('says what it is, of which revision, and how to run it', () => {
    const { stdout: revision } = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' });
    expect(image.Labels).toMatchObject({
      'org.opencontainers.image.title': 'delivery-watch',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': PACKAGE.version,
      'org.opencontainers.image.revision': revision.trim(),
    });
    expect(image).toMatchObject({ User: '1000:1000', WorkingDir: '/app', Volumes: { '/app/data': {} } });
  });

  it('runs as another user on a read-only root, answers, knows its health, and ends at SIGTERM with 0', async () => {
    const emulator = await emulateEmpty();
    const [port, probes] = [await freePort(), await freePort()];
    for (const name of ['store', 'etc']) mkdirSync(join(folder, name));
    chownSync(join(folder, 'store'), UID, UID);
    const config = {
      server: { listen: `127.0.0.1:${port}`, probesListen: `127.0.0.1:${probes}` },
      accounts: [{ name: 'a', baseUrl: emulator.url, token: { file: '/etc/delivery-watch/token' } }],
    };
    writeFileSync(join(folder, 'etc', 'config.yaml'), JSON.stringify(config));
    writeFileSync(join(folder, 'etc', 'token'), emulator.token, { mode: 0o644 });
    // crun enters it as root without rights of its own; the bundle stays below 0700.
    chmodSync(folder, 0o711);

    const health = () => {
      const [how, ...check] = image.Healthcheck.Test;
      expect(how).toBe('CMD');
      return start(check, 'health');
    };
    const agent = start([...image.Entrypoint, ...image.Cmd], 'agent');
    const get = async (at: number, path: string) => {
      const answer = await fetch(`http://127.0.0.1:${at}${path}`);
      return [answer.status, await answer.text()] as const;
    };
    await eventually(() => get(probes, '/-/ready')).catch(error => {
      throw new Error(agent.said(), { cause: error });
    });
    expect(await get(port, '/-/healthy')).toEqual([200, 'delivery-watch is healthy\n']);
    expect(await get(port, '/-/ready')).toEqual([200, 'delivery-watch is ready\n']);
    await eventually(async () => expect((await get(port, '/metrics'))[1]).toContain('delivery_up{account="a"} 1'));
    const well = health();
    expect([await well.ended, well.said()]).toEqual([0, '']);

    const start10 = performance.now();
    agent.kill('TERM');
    expect(await agent.ended, agent.said()).toBe(0);
    const seconds = (performance.now() - start10) / 1000;
    process.stdout.write(`the image ended ${seconds.toFixed(1)} s after SIGTERM\n`);
    expect(seconds).toBeLessThan(10);
    expect(existsSync(join(folder, 'store', 'delivery-watch.db'))).toBe(true);
    const gone = health();
    expect(await gone.ended).toBe(1);
    expect(gone.said()).toContain('ECONNREFUSED');
  });
});
