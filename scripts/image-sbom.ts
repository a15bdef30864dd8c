import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface Component {
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly 'bom-ref': string;
}

interface Sbom {
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/** Entries of process.versions that are not libraries: Node.js itself, interfaces and data. */
const NO_LIBRARIES = ['node', 'modules', 'napi', 'cldr', 'tz', 'unicode'];

/** Returns the component of a package. `type`: the package's type in package URLs, with a namespace if there is one. */
function libraryOf(type: string, name: string, version: string, qualifiers = '') {
  const purl = `pkg:${type}/${encodeURIComponent(name)}@${encodeURIComponent(version)}${qualifiers}`;
  return { type: 'library', name, version, 'bom-ref': purl, purl };
}

/** Returns the component of a package from its Debian control paragraph, or an empty list if the package is not installed. */
function debianOf(paragraph: string, { name: id, version: release }: Component) {
  const field = (name: string) => new RegExp(`^${name}: *(.*)$`, 'm').exec(paragraph)?.[1] ?? '';
  // Only dpkg's own database contains the field `Status`. It also lists removed packages that left configuration files behind.
  if (!field('Package') || !/^(.* installed)?$/.test(field('Status'))) return [];
  // Security advisories name source packages: `gcc-12 (12.2.0-14)`.
  const source = encodeURIComponent(field('Source').replace(/ \((.*)\)/, '@$1'));
  const qualifiers = `?arch=${field('Architecture')}&distro=${id}-${release}${source && `&upstream=${source}`}`;
  return [libraryOf(`deb/${id}`, field('Package'), field('Version'), qualifiers)];
}

/**
 * Extends the package's bill of materials to cover the image: adds Node.js, its libraries and the Debian packages. `versions`:
 * process.versions. `control`: Debian control paragraphs. Throws an Error if no Debian package is installed.
 */
export function imageSbomOf(packaged: string, versions: NodeJS.Dict<string>, osRelease: string, control: string) {
  const sbom: Sbom = JSON.parse(packaged);
  const app = sbom.metadata.component;
  const value = (key: string) => new RegExp(`^${key}="?([^"\n]*)`, 'm').exec(osRelease)?.[1] ?? '';
  const system = { type: 'operating-system', name: value('ID'), version: value('VERSION_ID'), 'bom-ref': 'system' };
  const debian = control.split(/\n\s*\n/).flatMap(paragraph => debianOf(paragraph, system));
  if (debian.length === 0) throw new Error('the base image has no Debian packages in /var/lib/dpkg');
  const cpe = `cpe:2.3:a:nodejs:node.js:${versions.node}:*:*:*:*:*:*:*`;
  const node = { ...libraryOf('generic', 'node', `${versions.node}`), type: 'platform', cpe };
  // If this build of Node.js lacks a library, that library's version is empty.
  const bundled = Object.entries(versions).filter(([name, version]) => version && !NO_LIBRARIES.includes(name));
  const libraries = bundled.map(([name, version]) => libraryOf('generic', name, `${version}`));
  const dependencyOf = (ref: string, on: readonly Component[]) => ({ ref, dependsOn: on.map(each => each['bom-ref']) });
  const extended: Sbom = {
    ...sbom,
    metadata: { component: { type: 'container', name: app.name, version: app.version, 'bom-ref': 'image' } },
    components: [app, ...sbom.components, node, ...libraries, system, ...debian],
    dependencies: [
      dependencyOf('image', [app, node, system, ...debian]),
      ...sbom.dependencies,
      dependencyOf(node['bom-ref'], libraries),
    ],
  };
  return `${JSON.stringify(extended, null, 2)}\n`;
}

/**
 * Usage: image-sbom.ts BASE SBOM IMAGE_SBOM. BASE: folder with the contents of the base image's /var/lib/dpkg and with its file
 * os-release. SBOM: the package's. Writes the file IMAGE_SBOM.
 */
if (import.meta.main) {
  const [base = '', file = '', imageFile = ''] = process.argv.slice(2);
  // Distroless images contain a file for each package instead of `status`.
  const files = globSync(['status', 'status.d/*'], { cwd: base, exclude: ['**/*.md5sums'] }).sort();
  const [osRelease = '', ...control] = ['os-release', ...files].map(name => readFileSync(join(base, name), 'utf8'));
  const sbom = imageSbomOf(readFileSync(file, 'utf8'), process.versions, osRelease, control.join('\n\n'));
  writeFileSync(imageFile, sbom);
}
