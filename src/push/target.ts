import { type HeaderSetting, otlpReceiver } from '../kit/otlp-receiver.ts';
import type { Env } from '../kit/secret.ts';

/** Receiver of pushed metrics. Address and headers may contain secrets and are never shown. */
export interface Target {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly isGzipped: boolean;
  readonly timeout: number;
}

/** Default timeout of OTLP exporters (ms). */
const TIMEOUT = 10_000;

/** Parses headers from an OpenTelemetry variable: percent-encoded `name=value` pairs. Skips invalid pairs. */
function headersIn(text: string): [string, string][] {
  return text.split(',').flatMap((pair): [string, string][] => {
    const [, name, value = ''] = /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (name === undefined) return [];
    try {
      const decoded = decodeURIComponent(value);
      return /^[\t\x20-\x7e]*$/.test(decoded) ? [[name.toLowerCase(), decoded]] : [];
    } catch {
      return [];
    }
  });
}

/**
 * Returns the receiver of pushed metrics. OpenTelemetry's variables override the configuration except for headers. Configured
 * headers take precedence, but are sent only to the configured endpoint. Throws an Error if a variable has an unsupported value.
 */
export function targetOf(
  settings: { readonly endpoint: string; readonly headers: Readonly<Record<string, HeaderSetting>> },
  env: Env,
): Target {
  const set = (name: string) =>
    env[`OTEL_EXPORTER_OTLP_METRICS_${name}`] || env[`OTEL_EXPORTER_OTLP_${name}`] || undefined;
  const protocol = set('PROTOCOL') ?? 'http/protobuf';
  if (protocol !== 'http/protobuf') {
    throw new Error(`OTEL_EXPORTER_OTLP_PROTOCOL is ${protocol}; metrics are sent by http/protobuf only`);
  }
  const { url, headers } = otlpReceiver('metrics', settings, env);
  const timeout = Number(set('TIMEOUT') ?? Number.NaN);
  return {
    url,
    headers: { ...Object.fromEntries(headersIn(set('HEADERS') ?? '')), ...headers },
    isGzipped: set('COMPRESSION') !== 'none',
    timeout: timeout > 0 ? timeout : TIMEOUT,
  };
}

/** Whether metrics are pushed: enabled, and not switched off by OpenTelemetry's variables. */
export const isPushed = ({ enabled }: { readonly enabled: boolean }, env: Env): boolean =>
  enabled && env.OTEL_SDK_DISABLED?.toLowerCase() !== 'true' && ['', 'otlp'].includes(env.OTEL_METRICS_EXPORTER ?? '');
