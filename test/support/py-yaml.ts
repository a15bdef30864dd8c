import { execFileSync, spawnSync } from 'node:child_process';

/**
 * Returns whether PyYAML, a strict parser of YAML 1.1, is installed. If not, reports on stderr that tests are skipped, or throws if
 * REQUIRE_E2E is 1. Use it with `it.skipIf(!pyYamlIsThere())`.
 */
export function pyYamlIsThere(): boolean {
  if (spawnSync('python3', ['-c', 'import yaml']).status === 0) return true;
  if (process.env.REQUIRE_E2E === '1') throw new Error('PyYAML is not installed although REQUIRE_E2E=1 requires it');
  process.stderr.write('skipped: tests that need PyYAML, which is not installed\n');
  return false;
}

export function parsePython(text: string): unknown {
  const program = 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin.buffer), sys.stdout)';
  return JSON.parse(execFileSync('python3', ['-c', program], { input: text, encoding: 'utf8', maxBuffer: 64 << 20 }));
}
