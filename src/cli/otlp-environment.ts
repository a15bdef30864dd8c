import type { Config } from '../config/schema.ts';
import { otlpReceiver } from '../kit/otlp-receiver.ts';
import type { Env } from '../kit/secret.ts';
import { isPushed, targetOf } from '../push/target.ts';
import { hasLifecycles, isTraced } from '../telemetry/message-traces.ts';
import { isOtlp, tracesProtocol } from '../telemetry/protocol.ts';

/** Returns errors for unsupported values of OpenTelemetry's variables, without secrets. */
export function environmentErrors(config: Config, env: Env): string[] {
  const { push, tracing } = config;
  const checks = [
    () =>
      (hasLifecycles(config, env) || (isTraced(config, env) && isOtlp(env))) && [
        tracesProtocol(env),
        otlpReceiver('traces', tracing, env),
      ],
    () => isPushed(push.metrics, env) && targetOf(push.metrics, env),
  ];
  return checks.flatMap(check => {
    try {
      check();
      return [];
    } catch (error) {
      return [error instanceof Error ? error.message : String(error)];
    }
  });
}
