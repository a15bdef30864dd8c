import { execFileSync, spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { mainFile } from '../support/bundle.ts';
import { newFolder } from '../support/folder.ts';

const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

/** Copies the sources of a release. Returns functions that change a file and create the release files. */
function copyPackage() {
  const folder = newFolder();
  for (const file of ['package.json', 'CHANGELOG.md', '.ci/release-files']) cpSync(file, join(folder, file));
  cpSync(dirname(mainFile()), join(folder, 'dist'), { recursive: true });
  writeFileSync(join(folder, 'image.json'), '{"bomFormat":"CycloneDX"}');
  writeFileSync(join(folder, 'README.md'), 'Install it with npm.');
  return {
    folder,
    replace(file: string, from: RegExp, to: string) {
      const path = join(folder, file);
      writeFileSync(path, readFileSync(path, 'utf8').replace(from, to));
    },
    create(tag: string) {
      const env = {
        ...process.env,
        GITHUB_REPOSITORY: 'example/delivery-watch',
        GITHUB_SERVER_URL: 'https://github.com',
      };
      const args = ['.ci/release-files', tag, './dist', 'image.json', 'files'];
      return spawnSync('bash', args, { cwd: folder, env, encoding: 'utf8' });
    },
  };
}

it('.ci/release-files writes the package, the SBOMs of package and image, checksums and the version’s release notes', () => {
  const { folder, replace, create } = copyPackage();
  replace('CHANGELOG.md', /^## .*$/m, '## 9.9.9 (2030-01-01)\n\nLater.\n\n$&');
  const { status, stderr } = create(`v${version}`);
  expect(status, stderr).toBe(0);
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, { cwd: join(folder, 'files'), encoding: 'utf8' });
  const archive = `delivery-watch-${version}.tgz`;
  expect(run('sha256sum', '--check', 'SHA256SUMS')).toBe(
    `./${archive}: OK\nsbom.cdx.json: OK\nimage-sbom.cdx.json: OK\n`,
  );
  expect(run('cat', 'image-sbom.cdx.json')).toBe('{"bomFormat":"CycloneDX"}');
  expect(JSON.parse(run('tar', '-xOf', archive, 'package/package.json'))).toMatchObject({
    version,
    repository: { url: 'git+https://github.com/example/delivery-watch.git' },
  });
  expect(run('tar', '-xOf', archive, 'package/sbom.cdx.json')).toBe(run('cat', 'sbom.cdx.json'));
  const notes = readFileSync(join(folder, 'notes.md'), 'utf8');
  expect(notes).toContain('### Collection');
  expect(notes).not.toContain('Later.');
  const documents = `https://github.com/example/delivery-watch/blob/v${version}/docs/`;
  expect(notes).toContain(`[docs/metrics.md](${documents}metrics.md#freshness)`);
  expect(notes).not.toContain('](docs/');
});

it('.ci/release-files rejects a tag unless package.json has the same version and CHANGELOG.md has a dated section for it', () => {
  const { replace, create } = copyPackage();
  expect(create('v9.9.9')).toMatchObject({ status: 1, stderr: `package.json has version ${version}, the tag 9.9.9\n` });
  const stderr = `CHANGELOG.md needs a heading with the date of ${version}: ## ${version} (2026-01-31)\n`;
  for (const heading of [`${version} (unreleased)`, version, '9.9.9 (2030-01-01)']) {
    replace('CHANGELOG.md', /^## \d.*$/m, `## ${heading}`);
    expect(create(`v${version}`), heading).toMatchObject({ status: 1, stderr });
  }
});

it('.ci/release-files rejects a version if its README.md describes it as unpublished', () => {
  const { folder, create } = copyPackage();
  writeFileSync(join(folder, 'README.md'), 'No package or image is published yet.');
  expect(create(`v${version}`)).toMatchObject({ status: 1, stderr: 'README.md says that nothing is published\n' });
});

it('.ci/release-files without arguments prints its usage', () => {
  expect(spawnSync('bash', ['.ci/release-files'], { encoding: 'utf8' })).toMatchObject({
    status: 2,
    stderr: 'usage: .ci/release-files TAG PACKAGE IMAGE_SBOM FOLDER\n',
  });
});

interface Workflow {
  readonly jobs: Readonly<Record<string, { readonly steps?: readonly Step[] }>>;
}
interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly env?: Readonly<Record<string, string>>;
}
const [ci, release] = ['ci', 'release'].map(name => parse(readFileSync(`.github/workflows/${name}.yml`, 'utf8'))) as [
  Workflow,
  Workflow,
];

it('the commands of the workflows are valid shell scripts', () => {
  const steps = [ci, release].flatMap(({ jobs }) => Object.values(jobs).flatMap(job => job.steps ?? []));
  const scripts = steps.flatMap(({ run }) => run ?? []);
  expect(scripts.length).toBeGreaterThan(8);
  for (const script of scripts) execFileSync('bash', ['-n'], { input: script });
});

it.each(['registry', 'npm', 'release'])(
  'the job %s fails before it publishes if an archive has another checksum',
  job => {
    const [download, verify] = release.jobs[job]?.steps ?? [];
    expect(download?.uses).toContain('actions/download-artifact@');
    const { run = '', env: { SUMS = '' } = {} } = verify ?? {};
    const expression = /\${{ needs\.build\.outputs\.(\S+) }}/g;
    const archives = [...SUMS.matchAll(expression)].map(([, output]) => `${output}.tar`);
    expect(archives).toContain('release.tar');

    /** Runs the job's second step after changing one of the archives or one of the build job's outputs. */
    function outcome(changed?: string, lost?: string) {
      const folder = newFolder();
      writeFileSync(join(folder, 'notes.md'), 'notes');
      for (const file of archives) execFileSync('tar', ['-cf', file, 'notes.md'], { cwd: folder });
      rmSync(join(folder, 'notes.md'));
      const sumOf = (file: string) => hash('sha256', readFileSync(join(folder, file)));
      const sums = SUMS.replace(expression, (_, output) => (lost === `${output}.tar` ? '' : sumOf(`${output}.tar`)));
      if (changed) writeFileSync(join(folder, changed), ' ', { flag: 'a' });
      const env = { ...process.env, SUMS: sums };
      const { status } = spawnSync('bash', ['-eo', 'pipefail', '-c', run], { cwd: folder, env });
      return [status, existsSync(join(folder, 'notes.md'))];
    }
    expect(outcome()).toEqual([0, true]);
    for (const archive of archives) {
      expect(outcome(archive), archive).toEqual([1, false]);
      expect(outcome(undefined, archive), archive).toEqual([1, false]);
    }
  },
);
