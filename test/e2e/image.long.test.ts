import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mainFile } from '../support/bundle.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { freePort, requireProgram } from '../support/prometheus.ts';
import { sbomErrors } from '../support/sbom.ts';

/**
 * Runtime settings of the image: https://github.com/opencontainers/image-spec, plus HEALTHCHECK, which only Docker's
 * format contains.
 */
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

/** User id that differs from the image's user, as a cluster may assign. */
const UID = 4711;
const ELF = Buffer.from('\x7fELF');
/** Entries of process.versions that are not libraries. */
const NO_LIBRARIES = ['node', 'modules', 'napi', 'cldr', 'tz', 'unicode'];
const PACKAGE: { readonly version: string } = JSON.parse(readFileSync('package.json', 'utf8'));

const hasAll = ['buildah', 'debootstrap', 'unshare', 'setpriv'].map(requireProgram).every(Boolean);
const isRoot = process.getuid?.() === 0;
if (!isRoot) process.stderr.write('skipped: the image, since only root can build it\n');

describe.skipIf(!hasAll || !isRoot)('container image', () => {
  let folder = '';
  let image: ImageConfig;
  let revision = '';
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'delivery-watch-image-'));
    revision = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' }).stdout.trim();
    const { status, stdout, stderr } = spawnSync('bash', ['.ci/image', folder], { encoding: 'utf8' });
    expect(status, stdout + stderr).toBe(0);
    image = JSON.parse(readFileSync(join(folder, 'image.json'), 'utf8')).Docker.config;
  });
  beforeAll(() => {
    for (const name of ['store', 'etc']) mkdirSync(join(folder, name));
    // As with Kubernetes' fsGroup, the folder belongs to another user, but to the group of the process.
    chownSync(join(folder, 'store'), 0, UID);
    chmodSync(join(folder, 'store'), 0o2775);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const inside = (path: string) => join(folder, 'root', path);
  const found = (pattern: string) => globSync(pattern, { cwd: inside('.') });
  const text = (path: string) => readFileSync(inside(path), 'utf8');
  const isElf = (path: string) => readFileSync(inside(path)).subarray(0, 4).equals(ELF);

  /** Returns the paths of all files, folders and links in the image, with their status. */
  function entries() {
    const root = realpathSync(inside('.'));
    const all = readdirSync(root, { recursive: true, withFileTypes: true });
    // readdir also lists the folders behind links, such as /lib.
    const real = all.filter(({ parentPath }) => realpathSync(parentPath) === parentPath);
    const paths = real.map(({ parentPath, name }) => relative(root, join(parentPath, name)));
    return paths.map(path => ({ path, stats: lstatSync(join(root, path)) }));
  }

  /**
   * Runs a command of the image as a container engine would: as process 1 of a new PID namespace, as another,
   * unprivileged user, on a read-only root filesystem with a writable store.
   */
  function start(args: readonly string[]) {
    const script = `
      root=$(realpath "$1/root"); mkdir -p "$root/etc/delivery-watch"
      mount --bind "$root" "$root"
      mount -t proc proc "$root/proc"; mount --bind /dev "$root/dev"
      mount --bind "$1/store" "$root/app/data"; mount --bind "$1/etc" "$root/etc/delivery-watch"
      for each in "" /etc/delivery-watch; do mount -o remount,bind,ro "$root$each"; done
      shift; uid=$1 folder=$2; shift 2
      exec setpriv --no-new-privs unshare --root "$root" --wd "$folder" --setgid "$uid" --setuid "$uid" "$@"`;
    const own = ['--mount', '--pid', '--ipc', '--fork', '--kill-child', 'sh', '-euc', script, 'sh'];
    const child = spawn('unshare', [...own, folder, String(UID), image.WorkingDir, ...args], {
      env: Object.fromEntries(image.Env.map(each => each.split(/=(.*)/s))),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const chunks: string[] = [];
    for (const output of [child.stdout, child.stderr]) output.on('data', chunk => chunks.push(String(chunk)));
    const ended = once(child, 'close').then(([code]) => code);
    const pid = () => Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8'));
    return { output: () => chunks.join(''), ended, pid };
  }

  it('the image contains only the program: no npm, sources, development packages or shell', () => {
    const packaged = globSync('*', { cwd: dirname(mainFile()) });
    expect(found('app/*').sort()).toEqual([...packaged, 'data'].map(name => `app/${name}`).sort());
    // The base image contains only libraries and data.
    expect(found('**/{bin,sbin}/*')).toEqual(['usr/local/bin/node']);
    expect(found('app/**/{node_modules,*.ts}')).toEqual([]);
  });

  it('the image has no setuid files, and users other than root can write only to its store and to temporary folders', () => {
    const all = entries();
    const sizes = new Map(all.map(({ stats }) => [stats.ino, stats.isFile() ? stats.size : 0]));
    const megabytes = [...sizes.values()].reduce((sum, size) => sum + size, 0) / 1e6;
    process.stdout.write(`the image has ${megabytes.toFixed(1)} MB uncompressed\n`);
    expect(all.filter(({ stats }) => stats.isFile() && stats.mode & 0o6000)).toEqual([]);
    const writable = all.filter(({ stats }) => stats.uid !== 0 || (!stats.isSymbolicLink() && stats.mode & 0o002));
    expect(writable.map(({ path }) => path).sort()).toEqual(['app/data', 'tmp', 'var/lock', 'var/tmp']);
    expect(megabytes).toBeLessThan(250);
  });

  it("the image's bill of materials lists npm packages, Node.js, its libraries and the packages of all shared libraries", async () => {
    const sbom = JSON.parse(text('app/sbom.cdx.json'));
    expect(sbomErrors(sbom)).toBe('[]');
    const purls: string[] = sbom.components.flatMap(({ purl }: { purl?: string }) => purl ?? []);
    const packaged = JSON.parse(readFileSync(join(dirname(mainFile()), 'sbom.cdx.json'), 'utf8'));
    for (const { purl } of packaged.components) expect(purls).toContain(purl);

    const node = start(['node', '-p', 'JSON.stringify(process.versions)']);
    expect(await node.ended, node.output()).toBe(0);
    const versions = Object.entries<string>(JSON.parse(node.output()));
    const libraries = versions.filter(([name, version]) => version && !NO_LIBRARIES.includes(name));
    expect(libraries.map(([name]) => name)).toEqual(expect.arrayContaining(['openssl', 'uv', 'v8', 'zlib']));
    const generic = [...libraries, ...versions.filter(([name]) => name === 'node')];
    expect(purls).toEqual(expect.arrayContaining(generic.map(([name, version]) => `pkg:generic/${name}@${version}`)));

    const owners = new Map<string, string>();
    for (const file of found('var/lib/dpkg/status.d/*.md5sums')) {
      for (const [, path = ''] of text(file).matchAll(/^\S+ +(.+)$/gm)) owners.set(path, basename(file, '.md5sums'));
    }
    const files = entries().flatMap(({ path, stats }) => (stats.isFile() && isElf(path) ? path : []));
    const shared = files.filter(path => path !== 'usr/local/bin/node');
    const owning = new Set(shared.map(path => owners.get(path) ?? `no package of ${path}`));
    expect([...owning].sort()).toEqual(['libc6', 'libgcc-s1', 'libstdc++6']);
    for (const name of owning) {
      const [, version = ''] = /^Version: (.+)$/m.exec(text(`var/lib/dpkg/status.d/${name}`)) ?? [];
      const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?`;
      expect(purls.filter(each => each.startsWith(purl))).toHaveLength(1);
    }
    // The loader resolves these names, such as libstdc++.so.6, to files or links in the image.
    const needed = execFileSync('ldd', [inside('usr/local/bin/node')], { encoding: 'utf8' }).matchAll(/^\t(\S+) =>/gm);
    const names = new Set(entries().map(({ path }) => basename(path)));
    expect([...needed].map(([, name = '']) => name).filter(name => !names.has(name))).toEqual([]);
    const counts = Map.groupBy(purls, purl => purl.split('/')[0]);
    process.stdout.write(
      `the image's SBOM: ${[...counts].map(([type, { length }]) => `${length} ${type}`).join(', ')}\n`,
    );
  });

  it('the image runs as another user, who cannot write to the root filesystem', async () => {
    const script = `try { fs.writeFileSync('main.js', '') } catch (error) { console.log(process.getuid(), error.code) }`;
    const node = start(['node', '-e', script]);
    expect([await node.ended, node.output()]).toEqual([0, `${UID} EROFS\n`]);
  });

  it('the image has labels with name, version, licence and revision, and sets user, working folder and volume', () => {
    expect(image.Labels).toMatchObject({
      'org.opencontainers.image.title': 'delivery-watch',
      'org.opencontainers.image.licenses': 'Apache-2.0',
      'org.opencontainers.image.version': PACKAGE.version,
      'org.opencontainers.image.revision': revision,
    });
    expect(image).toMatchObject({ User: '1000:1000', WorkingDir: '/app', Volumes: { '/app/data': {} } });
    const modeOf = (path: string) => (lstatSync(inside(path)).mode & 0o777).toString(8);
    expect([modeOf('app'), modeOf('app/data')]).toEqual(['755', '700']);
  });

  it('the image runs as another user on a read-only root filesystem, responds, reports its health and exits with 0 on SIGTERM', async () => {
    const emulator = await emulateEmpty();
    const [port, probes] = [await freePort(), await freePort()];
    const config = {
      server: { listen: `127.0.0.1:${port}`, probesListen: `127.0.0.1:${probes}` },
      accounts: [{ name: 'a', baseUrl: emulator.url, token: { file: '/etc/delivery-watch/token' } }],
    };
    writeFileSync(join(folder, 'etc', 'config.yaml'), JSON.stringify(config));
    writeFileSync(join(folder, 'etc', 'token'), emulator.token, { mode: 0o644 });
    const health = () => {
      const [how, ...check] = image.Healthcheck.Test;
      expect(how).toBe('CMD');
      return start(check);
    };
    const agent = start([...image.Entrypoint, ...image.Cmd]);
    const get = async (at: number, path: string) => {
      const answer = await fetch(`http://127.0.0.1:${at}${path}`);
      return [answer.status, await answer.text()] as const;
    };
    const early = agent.ended.then(code => Promise.reject(new Error(`ended with ${code}: ${agent.output()}`)));
    // The agent exits later, and the rejection of `early` must not go unhandled.
    early.catch(() => undefined);
    await Promise.race([early, eventually(() => get(probes, '/-/ready'))]);
    expect(await get(port, '/-/healthy')).toEqual([200, 'delivery-watch is healthy\n']);
    expect(await get(port, '/-/ready')).toEqual([200, 'delivery-watch is ready\n']);
    await eventually(async () => expect((await get(port, '/metrics'))[1]).toContain('delivery_up{account="a"} 1'));
    const whileRunning = health();
    expect([await whileRunning.ended, whileRunning.output()]).toEqual([0, '']);

    const signalledAt = performance.now();
    process.kill(agent.pid(), 'SIGTERM');
    expect(await agent.ended, agent.output()).toBe(0);
    const seconds = (performance.now() - signalledAt) / 1000;
    process.stdout.write(`the image ended ${seconds.toFixed(1)} s after SIGTERM\n`);
    expect(seconds).toBeLessThan(10);
    expect(existsSync(join(folder, 'store', 'delivery-watch.db'))).toBe(true);
    const afterEnd = health();
    expect(await afterEnd.ended).toBe(1);
    expect(afterEnd.output()).toContain('ECONNREFUSED');
  });
});
