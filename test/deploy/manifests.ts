import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { parseAllDocuments } from 'yaml';

/** Contents of the manifests in deploy/kubernetes by file name, except kustomization.yaml files. */
export const manifestFiles = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    globSync(['deploy/kubernetes/{base,service,overlays/*}/*.yaml', 'deploy/kubernetes/*.yaml'])
      .filter(file => basename(file) !== 'kustomization.yaml')
      .sort()
      .map(file => [basename(file), readFileSync(file, 'utf8')]),
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
