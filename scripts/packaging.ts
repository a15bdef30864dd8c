import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Plugin } from 'rolldown';
import { assetFiles } from '../src/status/page/asset-files.ts';
import { type Lockfile, lockKey, sbomOf } from './sbom.ts';

const ROOT = join(import.meta.dirname, '..');

/** Repository files for users, which are copied to the same path in the package. */
const COPIED = [
  '{LICENSE,README.md,CHANGELOG.md,SECURITY.md,config.example.yaml,config.schema.json}',
  '{dashboards,deploy,examples,docs/runbooks}/**/*.*',
  'docs/{*.md,openapi.json}',
  // The pictures that the documents show or link to.
  'docs/images/{agent-light-all,dlq-light-all,overview-light,overview-*-first-screen,page-*}.png',
];

/** Private files that operators may keep in a checkout (see .gitignore), and the chart, which has its own package. */
const EXCLUDED = ['deploy/secrets/**', 'deploy/prometheus.local.yml', 'deploy/helm/**'];

/** Fields of package.json that are copied to the package's manifest. */
const FIELDS = ['name', 'version', 'description', 'license', 'keywords', 'engines'] as const;

function manifest(): string {
  const own = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const fields = Object.fromEntries(FIELDS.map(field => [field, own[field]]));
  return `${JSON.stringify({ ...fields, type: 'commonjs', bin: { 'delivery-watch': 'main.js' } }, null, 2)}\n`;
}

/** Returns the folder of the dependency that contains `file`; undefined for files of this repository. */
function packageOf(file: string): string | undefined {
  if (!file.includes('/node_modules/')) return undefined;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    // Skip additional manifests in subfolders of a package. They have no version.
    if (existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version) return folder;
  }
}

/** Returns the distinct leading comments of these files. */
function headsOf(files: readonly string[]): string {
  const heads = files.flatMap(file => /^(?:\/\/.*\n)+/.exec(readFileSync(file, 'utf8'))?.[0] ?? []);
  return [...new Set(heads)].map(head => head.replace(/^\/\/ ?/gm, '').trim()).join('\n\n');
}

/** Returns the full licence texts of a package. `files`: its bundled files. Throws an Error if none is found. */
function licenceOf(folder: string, files: readonly string[]): string {
  const texts = readdirSync(folder, { withFileTypes: true })
    .filter(each => each.isFile() && /^(licen[cs]e|notice|copying)/i.test(each.name))
    .map(({ name }) => readFileSync(join(folder, name), 'utf8').trim());
  if (texts.length > 0) return texts.join('\n\n');
  // Some packages contain the licence only in their README or in the leading comments of their files.
  const [, section] = /^#+ *licen[cs]e\s+(.*)/ims.exec(readFileSync(join(folder, 'README.md'), 'utf8')) ?? [];
  const text = section ?? headsOf(files);
  if (!/licen[cs]e|redistribution/i.test(text)) throw new Error(`${folder} has no licence`);
  return text.trim();
}

function nameOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return `${name} ${version} (${license})`;
}

function licencesOf(files: readonly string[]): string {
  const used = Map.groupBy(files, packageOf);
  used.delete(undefined);
  const texts = Map.groupBy(used, ([folder, files]) => licenceOf(folder as string, files));
  const sections = [...texts].map(([text, users]) => {
    const names = new Set(users.map(([folder]) => nameOf(folder as string)));
    return `${[...names].sort().join('\n')}\n\n${text}\n`;
  });
  return sections.sort().join(`\n${'-'.repeat(80)}\n\n`);
}

function sbom(files: readonly string[]): string {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lockfile;
  const folders = files.flatMap(file => packageOf(file) ?? []);
  return `${JSON.stringify(sbomOf(lock, new Set(folders.map(folder => lockKey(ROOT, folder)))), null, 2)}\n`;
}

/**
 * Turns dist/ into the root of the published package: adds its manifest, licences, bill of materials, documents and
 * page assets.
 */
export const packaging: Plugin = {
  name: 'packaging',
  generateBundle(_options, bundle) {
    const emit = (fileName: string, source: string | Uint8Array) => this.emitFile({ type: 'asset', fileName, source });
    const served = [...assetFiles()];
    const modules = Object.values(bundle).flatMap(each => (each.type === 'chunk' ? each.moduleIds : []));
    const files = [...modules, ...served.map(([, file]) => file)];
    emit('package.json', manifest());
    emit('THIRD-PARTY-LICENSES', licencesOf(files));
    emit('sbom.cdx.json', sbom(files));
    for (const [name, file] of served) emit(`chunks/assets/${name}`, readFileSync(file));
    for (const name of readdirSync(join(ROOT, 'mixin/templates'))) {
      emit(`chunks/mixin/${name}`, readFileSync(join(ROOT, 'mixin/templates', name)));
    }
    for (const file of globSync(COPIED, { cwd: ROOT, exclude: EXCLUDED })) emit(file, readFileSync(join(ROOT, file)));
  },
};
