import { type Env, headerError } from '../kit/secret.ts';
import { bareAddress } from '../kit/text.ts';
import { isDisabled, isOtlp, otlpAddress, otlpReceiver, tracesProtocol, variableIn } from '../telemetry/options.ts';
import type { Reporter } from './errors.ts';
import type { Config } from './schema.ts';

/** Checks variables of the environment that no setting names. Warns of those that override a setting. */
export function checkEnvironment({ tracing }: Config, env: Env, report: Reporter): void {
  if (env.NODE_TLS_REJECT_UNAUTHORIZED?.trim() === '0') {
    const remedy = 'remove it, and name a private CA in upstream.caFile or NODE_EXTRA_CA_CERTS';
    report.warn([], `NODE_TLS_REJECT_UNAUTHORIZED=0 has no effect: certificates are always verified; ${remedy}`);
  }
  const { enabled, endpoint, headers, messages } = tracing;
  if (!enabled) return;
  if (isDisabled(env))
    report.warn(['tracing', 'enabled'], 'is overridden by OTEL_SDK_DISABLED: no traces are exported');
  else if (messages || isOtlp(env)) {
    try {
      tracesProtocol(env);
      otlpReceiver(tracing, env);
    } catch (error) {
      report.error(['tracing'], error instanceof Error ? error.message : String(error));
    }
  }
  const warn = (name: string, key: string) => {
    const { value } = variableIn(env, name);
    if (value !== undefined) report.warn(['tracing', key], `is overridden by ${name}, which is ${value}`);
  };
  if (!isOtlp(env)) warn('OTEL_TRACES_EXPORTER', 'endpoint');
  warn('OTEL_TRACES_SAMPLER', 'sampleRatio');
  const { url, variable } = otlpAddress(endpoint, env);
  if (variable !== undefined) {
    report.warn(['tracing', 'endpoint'], `is overridden by ${variable}: traces are sent to ${bareAddress(url)}`);
  }
  if (variable !== undefined && Object.keys(headers).length > 0) {
    const own = variable.replace('ENDPOINT', 'HEADERS');
    report.warn(['tracing', 'headers'], `are not sent: ${variable} names another address; set ${own} for it`);
  }
  for (const [name, value] of Object.entries(headers)) {
    const wrong = headerError(value, env);
    if (wrong) report.error(['tracing', 'headers', name], wrong);
  }
}
