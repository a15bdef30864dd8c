import { accessSync, constants } from 'node:fs';

/** Where `.ci/newer-prometheus /opt/newer-prometheus` puts them. */
const USUAL = '/opt/newer-prometheus/usr/bin';

/**
 * A program of the next Debian: as the environment says, else where `.ci/newer-prometheus` puts it. Undefined when there is none;
 * then says on stderr that what needs it is skipped, or, where REQUIRE_E2E is 1, throws. For `test.skipIf(program === undefined)`.
 */
function find(variable: string, name: string): string | undefined {
  const program = process.env[variable] ?? `${USUAL}/${name}`;
  try {
    accessSync(program, constants.X_OK);
    return program;
  } catch {
    const missing = `${program} is not there: .ci/newer-prometheus /opt/newer-prometheus fetches it`;
    if (process.env.REQUIRE_E2E === '1') throw new Error(`${missing}, and REQUIRE_E2E=1 asks for it`);
    process.stderr.write(`skipped: tests that need a newer ${name}; ${missing}\n`);
    return undefined;
  }
}

/** A Prometheus that knows what Debian's stable one may not, such as where series begin. */
export const findNewerPrometheus = () => find('NEWER_PROMETHEUS', 'prometheus');

/** A VictoriaMetrics: it takes OTLP, which Debian builds Prometheus without, and answers the same queries. */
export const findVictoriaMetrics = () => find('VICTORIA_METRICS', 'victoria-metrics');
