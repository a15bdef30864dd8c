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

/** Parses percent-encoded `name=value` pairs of an OpenTelemetry variable. Skips invalid pairs. */
export function pairsIn(text = ''): [name: string, value: string][] {
  return text.split(',').flatMap((pair): [string, string][] => {
    const [, name, value = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (name === undefined) return [];
    try {
      return [[name, decodeURIComponent(value)]];
    } catch {
      return [];
    }
  });
}

/** Returns the headers of an OpenTelemetry variable. Skips headers that HTTP does not allow. */
function headersIn(text: string | undefined): Readonly<Record<string, string>> {
  const valid = pairsIn(text).filter(
    ([name, value]) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\t\x20-\x7e]*$/.test(value),
  );
  return Object.fromEntries(valid.map(([name, value]) => [name.toLowerCase(), value]));
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
    headers: { ...headersIn(set('HEADERS')), ...headers },
    isGzipped: set('COMPRESSION') !== 'none',
    timeout: timeout > 0 ? timeout : TIMEOUT,
  };
}

/** Whether metrics are pushed: enabled, and not disabled by OpenTelemetry's variables. */
export const isPushed = ({ enabled }: { readonly enabled: boolean }, env: Env): boolean =>
  enabled && env.OTEL_SDK_DISABLED?.toLowerCase() !== 'true' && ['', 'otlp'].includes(env.OTEL_METRICS_EXPORTER ?? '');
