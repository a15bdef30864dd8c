import { describe, expect, it } from 'vitest';
import { compile } from './compile.ts';
import { manifestFiles, readManifests } from './manifests.ts';

describe('deploy/kubernetes', () => {
  const files = manifestFiles();

  it('the manifests contain only valid keys', () => expect(compile(readManifests(files))).toBe(''));

  it('misspelled keys are detected at any depth and in every file', () => {
    const wrong = {
      'standalone.yaml': ['readOnlyRootFilesystem', 'readOnlyRootFileSystem'],
      'replicas.yaml': ['unhealthyPodEvictionPolicy', 'unhealthyPodEviction'],
      'sidecar.yaml': ['failureThreshold', 'failureTreshold'],
      'service-monitor.yaml': ['honorLabels', 'honourLabels'],
      'network-policy.yaml': ['podSelector', 'podSelectors'],
    };
    const changed = Object.entries(wrong).map(([file, [from = '', to = '']]) => [
      file,
      files[file]?.replaceAll(from, to) ?? '',
    ]);
    const output = compile(readManifests(Object.fromEntries(changed)));
    for (const [, to = ''] of Object.values(wrong)) expect(output).toContain(`'"${to}"'`);
  });
});
