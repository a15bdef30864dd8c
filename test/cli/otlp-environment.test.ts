import { expect, it } from 'vitest';
import { environmentErrors } from '../../src/cli/otlp-environment.ts';
import { parseConfig } from '../../src/config/load.ts';

function faults(sections: object, env: Record<string, string>): string[] {
  const accounts = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'of-no-use' }];
  return environmentErrors(parseConfig(JSON.stringify({ accounts, ...sections }), 'x.yaml', {}).config, env);
}

const GRPC = { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
const tracing = { enabled: true };

it('the environment check reports OpenTelemetry variables with unsupported values if traces are exported', () => {
  expect(faults({ tracing }, GRPC)).toEqual([
    'OTEL_EXPORTER_OTLP_PROTOCOL is grpc; it must be one of http/protobuf, http/json',
  ]);
  expect(faults({ tracing }, { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' })).toHaveLength(1);
  const [secret] = faults({ tracing }, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'secret-canary' });
  expect(secret).toBe(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an http or https address, because traces are sent to it',
  );
  expect(faults({ tracing }, { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' })).toEqual([
    'OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address, because traces are sent to it',
  ]);
});

it('the environment check ignores variables if traces are not exported, and variables with supported values', () => {
  expect(faults({}, GRPC)).toEqual([]);
  expect(faults({ tracing }, {})).toEqual([]);
  expect(faults({ tracing }, { ...GRPC, OTEL_SDK_DISABLED: 'true' })).toEqual([]);
  expect(faults({ tracing }, { ...GRPC, OTEL_TRACES_EXPORTER: 'none' })).toEqual([]);
  // OTEL_TRACES_EXPORTER disables only the agent's own spans, not message traces.
  expect(
    faults({ tracing: { ...tracing, lifecycle: tracing } }, { ...GRPC, OTEL_TRACES_EXPORTER: 'none' }),
  ).toHaveLength(1);
});
