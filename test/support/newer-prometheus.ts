import { accessSync, constants } from 'node:fs';

/** Folder into which `.ci/newer-prometheus /opt/newer-prometheus` installs programs. */
const USUAL = '/opt/newer-prometheus/usr/bin';

/**
 * Returns the path of a program of the next Debian release: from the environment, or where `.ci/newer-prometheus` installs it.
 * If it is missing, reports on stderr that tests are skipped and returns undefined, or throws if REQUIRE_E2E is 1. For
 * `test.skipIf(program === undefined)`.
 */
function find(variable: string, name: string): string | undefined {
  const program = process.env[variable] ?? `${USUAL}/${name}`;
  try {
    accessSync(program, constants.X_OK);
    return program;
  } catch {
    const missing = `${program} is missing: .ci/newer-prometheus /opt/newer-prometheus fetches it`;
    if (process.env.REQUIRE_E2E === '1') throw new Error(`${missing} although REQUIRE_E2E=1 requires it`);
    process.stderr.write(`skipped: tests that need a newer ${name}; ${missing}\n`);
    return undefined;
  }
}

/** Finds a Prometheus with features that Debian stable may lack, such as start timestamps of series. */
export const findNewerPrometheus = () => find('NEWER_PROMETHEUS', 'prometheus');

/** Finds a VictoriaMetrics. It has the same query API and accepts OTLP, which Debian's Prometheus does not. */
export const findVictoriaMetrics = () => find('VICTORIA_METRICS', 'victoria-metrics');
