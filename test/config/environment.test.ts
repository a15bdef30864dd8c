import { describe, expect, it } from 'vitest';
import { ConfigError, formatError, parseConfig } from '../../src/config/load.ts';
import { otlpAddress } from '../../src/telemetry/options.ts';

/** Returns errors and warnings of a configuration, without places. */
function check(sections: object, env: Record<string, string>): { errors: string[]; warnings: string[] } {
  const accounts = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'T' } }];
  const text = (found: ConfigError['errors']) => found.map(each => formatError(each).replace(/^x\.yaml:\d+:\d+: /, ''));
  try {
    const { warnings } = parseConfig(JSON.stringify({ accounts, server: { public: true }, ...sections }), 'x.yaml', {
      T: 'x',
      ...env,
    });
    return { errors: [], warnings: text(warnings) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { errors: text(error.errors), warnings: text(error.warnings) };
  }
}

const faults = (sections: object, env: Record<string, string>) => check(sections, env).errors;
const warnings = (sections: object, env: Record<string, string>) => check(sections, env).warnings;

const GRPC = { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
const tracing = { enabled: true };

describe('environment errors', () => {
  it('unsupported values of OpenTelemetry variables are reported if traces are exported', () => {
    expect(faults({ tracing }, GRPC)).toEqual([
      'tracing: OTEL_EXPORTER_OTLP_PROTOCOL is grpc; it must be one of http/protobuf, http/json',
    ]);
    expect(faults({ tracing }, { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' })).toHaveLength(1);
    const [secret] = faults({ tracing }, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'secret-canary' });
    expect(secret).toBe(
      'tracing: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an http or https address, because traces are sent to it',
    );
    expect(faults({ tracing }, { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' })).toEqual([
      'tracing: OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address, because traces are sent to it',
    ]);
  });

  it('variables are ignored if traces are not exported, and accepted if their values are supported', () => {
    expect(faults({}, GRPC)).toEqual([]);
    expect(faults({ tracing }, {})).toEqual([]);
    expect(faults({ tracing }, { ...GRPC, OTEL_SDK_DISABLED: 'true' })).toEqual([]);
    expect(faults({ tracing }, { ...GRPC, OTEL_TRACES_EXPORTER: 'none' })).toEqual([]);
    // OTEL_TRACES_EXPORTER disables only the agent's own spans, not message traces.
    expect(faults({ tracing: { ...tracing, messages: true } }, { ...GRPC, OTEL_TRACES_EXPORTER: 'none' })).toHaveLength(
      1,
    );
  });

  it.each(['', ' ', '\t'])('the blank value %j is the same as an unset variable', blank => {
    const names = ['EXPORTER_OTLP_ENDPOINT', 'EXPORTER_OTLP_TRACES_ENDPOINT', 'EXPORTER_OTLP_PROTOCOL', 'SDK_DISABLED'];
    const more = ['TRACES_EXPORTER', 'TRACES_SAMPLER', 'EXPORTER_OTLP_CERTIFICATE'];
    const env = Object.fromEntries([...names, ...more].map(name => [`OTEL_${name}`, blank]));
    const traced = { tracing };
    expect(faults(traced, env)).toEqual([]);
    expect(warnings(traced, env)).toEqual([]);
    expect(faults(traced, { ...env, ...GRPC })).toHaveLength(1);
  });

  it.each(['http://c:4318', 'http://c:4318/', 'http://c:4318/v1/traces', 'http://c:4318/v1/traces/'])(
    'traces are sent to /v1/traces below %s, which may end in it',
    base => expect(otlpAddress(base, {}).url).toBe('http://c:4318/v1/traces'),
  );

  it.each(['/api/v2', '/api/v2/', '/api/v2/alerts', '/prefix/api/v1/alerts', '/API/v2'])(
    'the Alertmanager address with the path %s is refused, because the path is added to it',
    path => {
      const alerts = (url: string) => ({ notifiers: [{ name: 'ops', alertmanager: { urls: [url] } }] });
      expect(faults({ alerts: alerts(`http://am.example${path}`) }, {})).toEqual([
        expect.stringMatching(
          /^alerts\.notifiers\[0\]\.alertmanager\.urls\[0\]: must be .* \/api\/v2 \(the agent adds \/api\/v2\)$/,
        ),
      ]);
      expect(faults({ alerts: alerts('http://am.example/api/v2/eu') }, {})).toEqual([]);
    },
  );

  it.each(['CERTIFICATE', 'CLIENT_CERTIFICATE', 'CLIENT_KEY', 'TRACES_CERTIFICATE'])(
    'OTEL_EXPORTER_OTLP_%s must name a file that can be read',
    name => {
      const variable = `OTEL_EXPORTER_OTLP_${name}`;
      expect(faults({ tracing }, { [variable]: '/nowhere.pem' })).toEqual([
        `tracing: ${variable} is /nowhere.pem, which can't be read: ENOENT`,
      ]);
      expect(faults({ tracing }, { [variable]: '/' })).toEqual([
        `tracing: ${variable} is /, which can't be read: EISDIR`,
      ]);
    },
  );
});
