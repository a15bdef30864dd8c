import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { requireProgram } from './prometheus.ts';

/** Folder into which `.ci/newer-packages /opt/newer-packages` unpacks programs. */
const USUAL = '/opt/newer-packages';

/**
 * Returns the path of a newer program than Debian's, in the folder that NEWER_PACKAGES names or in the usual one. If it is
 * missing, reports on stderr that tests are skipped and returns undefined, or throws if REQUIRE_E2E is 1. Use it with
 * `test.skipIf(program === undefined)`.
 */
export function findNewer(name: string): string | undefined {
  const program = join(process.env.NEWER_PACKAGES ?? USUAL, 'usr/bin', name);
  try {
    accessSync(program, constants.X_OK);
    return program;
  } catch {
    const missing = `${program} is missing: .ci/newer-packages ${USUAL} fetches it`;
    if (process.env.REQUIRE_E2E === '1') throw new Error(`${missing} although REQUIRE_E2E=1 requires it`);
    process.stderr.write(`skipped: tests that need a newer ${name}; ${missing}\n`);
    return undefined;
  }
}

/** Returns Debian's program and the newer one, if installed. Use it with `describe.each`. */
export const bothVersions = (
  name: 'prometheus' | 'promtool' | 'prometheus-alertmanager' | 'amtool',
): readonly string[] =>
  [requireProgram(name) ? name : undefined, findNewer(name)].filter(program => program !== undefined);
