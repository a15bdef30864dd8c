import { globSync, readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';

/** Contents of the files in deploy/kubernetes by name. */
export const manifestFiles = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    globSync('*.yaml', { cwd: 'deploy/kubernetes' })
      .sort()
      .map(name => [name, readFileSync(`deploy/kubernetes/${name}`, 'utf8')]),
  );

/** Parses every resource in these files. Throws if a file is not valid YAML. */
export function readManifests(files: Readonly<Record<string, string>>): unknown[] {
  return Object.values(files).flatMap(text =>
    parseAllDocuments(text).map(document => {
      if (document.errors[0]) throw document.errors[0];
      return document.toJS();
    }),
  );
}
