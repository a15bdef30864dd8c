import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { defineConfig, type Plugin } from 'rolldown';
import { assetFiles } from './src/http/page/asset-files.ts';

/** The folder of the package that `file` belongs to; undefined for our own. */
function packageOf(file: string): string | undefined {
  if (!file.includes('/node_modules/')) return undefined;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    // Some packages have more of them, without a name, in folders of their own.
    if (existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version) return folder;
  }
}

/** What stands at the head of files: comments before any code. */
function headsOf(files: readonly string[]): string {
  const heads = files.flatMap(file => /^(?:\/\/.*\n)+/.exec(readFileSync(file, 'utf8'))?.[0] ?? []);
  return [...new Set(heads)].map(head => head.replace(/^\/\/ ?/gm, '').trim()).join('\n\n');
}

/** The licences of a package, of which these files are used, in full, as they ask for wherever a copy is. */
function licenceOf(folder: string, files: readonly string[]): string {
  const texts = readdirSync(folder, { withFileTypes: true })
    .filter(each => each.isFile() && /^(licen[cs]e|notice|copying)/i.test(each.name))
    .map(({ name }) => readFileSync(join(folder, name), 'utf8').trim());
  if (texts.length > 0) return texts.join('\n\n');
  // Some have it as the last section of their README.
  const [, section] = /^#+ *licen[cs]e\s+(.*)/ims.exec(readFileSync(join(folder, 'README.md'), 'utf8')) ?? [];
  const text = section ?? headsOf(files);
  if (!/licen[cs]e|redistribution/i.test(text)) throw new Error(`${folder} has no licence`);
  return text.trim();
}

function nameOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return `${name} ${version} (${license})`;
}

/** dist/package.json, what the pages need, and the licences of all packages that there is code of. */
const besides: Plugin = {
  name: 'besides',
  generateBundle(_options, bundle) {
    const chunks = Object.values(bundle).filter(each => each.type === 'chunk');
    const served = [...assetFiles()];
    const files = [...chunks.flatMap(({ moduleIds }) => moduleIds), ...served.map(([, file]) => file)];
    const folders = new Set(files.flatMap(file => packageOf(file) ?? []));
    const used = Map.groupBy(files, packageOf);
    const sections = [...Map.groupBy(folders, folder => licenceOf(folder, used.get(folder) ?? []))].map(
      ([text, folders]) => `${[...new Set(folders.map(nameOf))].sort().join('\n')}\n\n${text}\n`,
    );
    const source = sections.sort().join(`\n${'-'.repeat(80)}\n\n`);
    this.emitFile({ type: 'asset', fileName: 'THIRD-PARTY-LICENSES', source });
    for (const [name, file] of served) {
      this.emitFile({ type: 'asset', fileName: `chunks/assets/${name}`, source: readFileSync(file) });
    }
    for (const name of readdirSync('docs/runbooks')) {
      const source = readFileSync(join('docs/runbooks', name));
      this.emitFile({ type: 'asset', fileName: `chunks/runbooks/${name}`, source });
    }
    for (const name of readdirSync('mixin/templates')) {
      const source = readFileSync(join('mixin/templates', name));
      this.emitFile({ type: 'asset', fileName: `chunks/mixin/${name}`, source });
    }
    this.emitFile({ type: 'asset', fileName: 'package.json', source: '{ "type": "commonjs" }\n' });
  },
};

/** See docs/adr/0009-one-package.md. */
// biome-ignore lint/style/noDefaultExport: rolldown asks for one.
export default defineConfig({
  // The second is the file of a thread.
  input: {
    main: 'src/launch.js',
    'chunks/password-worker': 'src/http/password-worker.ts',
  },
  platform: 'node',
  plugins: [besides],
  output: {
    dir: 'dist',
    cleanDir: true,
    format: 'cjs',
    chunkFileNames: 'chunks/[name].js',
  },
});
