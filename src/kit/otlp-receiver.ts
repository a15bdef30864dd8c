import { z } from 'zod';
import { type Env, Secret } from './secret.ts';

/** Literals become secrets, because most headers contain keys. */
const headerValue = z.union(
  [
    z.strictObject({ env: z.string().min(1) }),
    z
      .string()
      .regex(/^[\t\x20-\x7e]*$/, { error: 'must be printable ASCII characters' })
      .transform(text => new Secret(text)),
  ],
  { error: 'must be { env: NAME } or the value itself as text of printable ASCII characters' },
);

export type HeaderSetting = z.output<typeof headerValue>;

export const otlpHeaders = z
  .record(z.string().regex(/^[\w!#$%&'*+.^`|~-]+$/, { error: 'must be the name of a header' }), headerValue)
  .default({})
  .describe(
    'Headers of the requests, such as an API key: `{ env: NAME }` or the value itself. Sent only to the configured `endpoint`.',
  );

interface ReceiverSettings {
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, HeaderSetting>>;
}

/** Returns the URL for traces. `variable`: the environment variable that overrides the configured address, if any. */
export function otlpAddress(endpoint: string, env: Env) {
  const urlBelow = (base: string) => `${base.replace(/\/+$/, '')}/v1/traces`;
  const [general, own] = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'];
  const url = env[own] || urlBelow(env[general] || endpoint);
  const isConfigured = url === urlBelow(endpoint);
  return { url, variable: isConfigured ? undefined : env[own] ? own : general };
}

/**
 * Returns a receiver's URL and headers. Configured headers may be keys, so they are not sent to an address from the
 * environment.
 */
export function otlpReceiver({ endpoint, headers }: ReceiverSettings, env: Env) {
  const { url, variable } = otlpAddress(endpoint, env);
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
    throw new Error(`${variable} must be an http or https address, because traces are sent to it`);
  }
  const sent = variable === undefined ? Object.entries(headers) : [];
  const textOf = (value: HeaderSetting) => (value instanceof Secret ? value.reveal() : (env[value.env] ?? ''));
  return { url, headers: Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), textOf(value)])) };
}

/** Returns why a header cannot be sent, or undefined. */
export function headerError(setting: HeaderSetting, env: Env): string | undefined {
  if (setting instanceof Secret) return undefined;
  const text = env[setting.env];
  if (text === undefined) return `the environment variable ${setting.env} is not set`;
  return /^[\t\x20-\x7e]*$/.test(text)
    ? undefined
    : `the environment variable ${setting.env} must be printable ASCII characters`;
}
