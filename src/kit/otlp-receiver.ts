import { z } from 'zod';
import { Secret } from './secret.ts';

/** Address of an OTLP/HTTP receiver, without the path of a signal. */
export const otlpUrl = z.string().refine(
  text => {
    const url = URL.parse(text);
    return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#\s]/.test(text);
  },
  { error: 'must be an http or https address without user, query or fragment' },
);

/** Hidden at once: most of what is sent along is a key. Undici and Node.js refuse anything else in a header. */
const headerValue = z.union(
  [
    z.strictObject({ env: z.string().min(1) }),
    z
      .string()
      .regex(/^[\t\x20-\x7e]*$/, { error: 'must be printable ASCII characters' })
      .transform(text => new Secret(text)),
  ],
  { error: 'must be { env: NAME } or the value itself, printable ASCII characters' },
);

export type HeaderSetting = z.output<typeof headerValue>;

export const otlpHeaders = z
  .record(z.string().regex(/^[\w!#$%&'*+.^`|~-]+$/, { error: 'must be the name of a header' }), headerValue)
  .default({})
  .describe('Headers of the export requests, such as an API key: `{ env: NAME }` or the value itself.');

/** Why a header can't be sent now; undefined when it can. */
export function faultOfHeader(
  setting: HeaderSetting,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (setting instanceof Secret) return undefined;
  const text = env[setting.env];
  if (text === undefined) return `the environment variable ${setting.env} is not set`;
  return /^[\t\x20-\x7e]*$/.test(text)
    ? undefined
    : `the environment variable ${setting.env} must be printable ASCII characters`;
}
