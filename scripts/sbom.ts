import { relative, sep } from 'node:path';

interface LockedPackage {
  readonly name?: string;
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: true;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** The parts of package-lock.json that are used here: packages by folder; '' is the package itself. */
export interface Lockfile {
  readonly name: string;
  readonly version: string;
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

/** Returns the key of a folder below `root` in the lockfile, such as `node_modules/zod`. */
export const lockKey = (root: string, folder: string) => relative(root, folder).split(sep).join('/');

const nameOf = (lock: Lockfile, key: string) =>
  lock.packages[key]?.name ?? (key === '' ? lock.name : key.slice(key.lastIndexOf('node_modules/') + 13));

const purlOf = (lock: Lockfile, key: string) =>
  `pkg:npm/${nameOf(lock, key).replace('@', '%40')}@${lock.packages[key]?.version}`;

/** Resolves a dependency of the package at `key` as Node.js does: in the package's own node_modules or in an outer one. */
function resolve(lock: Lockfile, key: string, name: string): string | undefined {
  for (let folder = key; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const found = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (found in lock.packages) return found;
    if (folder === '') return undefined;
  }
}

const licencesOf = (license: string) => [
  / (?:AND|OR|WITH) /.test(license) ? { expression: license } : { license: { id: license } },
];

/** Converts a lockfile hash, such as `sha512-…` in base64, to CycloneDX's format. */
function hashOf(integrity: string) {
  const [algorithm = '', digest = ''] = integrity.split(/-(.*)/s);
  return { alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') };
}

function componentOf(lock: Lockfile, key: string, type: 'application' | 'library') {
  const { version, license, integrity } = lock.packages[key] as LockedPackage;
  const purl = purlOf(lock, key);
  const [scope, name = scope] = nameOf(lock, key).split('/');
  return {
    type,
    'bom-ref': purl,
    ...(scope !== name && { group: scope }),
    name,
    version,
    ...(license && { licenses: licencesOf(license) }),
    purl,
    ...(integrity && { hashes: [hashOf(integrity)] }),
  };
}

/**
 * Returns a CycloneDX 1.6 bill of materials of the bundle. `bundled`: lockfile keys of the bundled packages. Throws if any of
 * them is not a production dependency in the lockfile.
 */
export function sbomOf(lock: Lockfile, bundled: ReadonlySet<string>): object {
  for (const key of bundled) {
    const locked = lock.packages[key];
    if (!locked || locked.dev) throw new Error(`${key} is bundled, but no production dependency of package-lock.json`);
  }
  const keys = ['', ...[...bundled].sort()];
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: componentOf(lock, '', 'application') },
    components: keys.slice(1).map(key => componentOf(lock, key, 'library')),
    dependencies: keys.map(key => {
      const { dependencies, optionalDependencies, peerDependencies } = lock.packages[key] as LockedPackage;
      const names = Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies });
      const found = names.map(name => resolve(lock, key, name)).filter(each => each !== undefined && bundled.has(each));
      return {
        ref: purlOf(lock, key),
        dependsOn: [...new Set(found.map(each => purlOf(lock, each as string)))].sort(),
      };
    }),
  };
}
