import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';

/** Where `.ci/newer-prometheus /opt/newer-prometheus` puts it. */
const USUAL = '/opt/newer-prometheus/usr/bin/prometheus';

/**
 * The program of a Prometheus that takes OTLP and native histograms' start times, which Debian's stable one may not: as
 * NEWER_PROMETHEUS says, else where `.ci/newer-prometheus` puts it. Undefined when there is none; then says on stderr that what
 * needs it is skipped, or, where REQUIRE_E2E is 1, throws. For `test.skipIf(newerPrometheus === undefined)`.
 */
export function findNewerPrometheus(): string | undefined {
  const program = process.env.NEWER_PROMETHEUS ?? USUAL;
  try {
    accessSync(program, constants.X_OK);
    return program;
  } catch {
    const missing = `${program} is not there: .ci/newer-prometheus /opt/newer-prometheus fetches it`;
    if (process.env.REQUIRE_E2E === '1') throw new Error(`${missing}, and REQUIRE_E2E=1 asks for it`);
    process.stderr.write(`skipped: tests that need a newer Prometheus; ${missing}\n`);
    return undefined;
  }
}

/** The flag by which this version takes OTLP, below `/api/v1/otlp`. */
export function otlpFlag(program: string): string {
  const help = execFileSync(program, ['--help'], { encoding: 'utf8' });
  return help.includes('--web.enable-otlp-receiver')
    ? '--web.enable-otlp-receiver'
    : '--enable-feature=otlp-write-receiver';
}
