import type { Config } from '../config/schema.ts';
import type { Env } from '../kit/secret.ts';
import { hasLifecycles, isTraced } from '../telemetry/message-traces.ts';
import { isOtlp, otlpReceiver, tracesProtocol } from '../telemetry/protocol.ts';

/** Returns errors for unsupported values of OpenTelemetry's variables, without secrets. */
export function environmentErrors(config: Config, env: Env): string[] {
  const isExported = hasLifecycles(config, env) || (isTraced(config, env) && isOtlp(env));
  if (!isExported) return [];
  try {
    tracesProtocol(env);
    otlpReceiver(config.tracing, env);
    return [];
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}
