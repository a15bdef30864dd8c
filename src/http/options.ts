import { z } from 'zod';

/** `host:port`; an IPv6 host in brackets; port 0 takes any free one. */
export const ListenAddress = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s:[\]/]+):\d{1,5}$/, {
    error: 'must be host:port, such as 127.0.0.1:10922 or [::]:10922',
  })
  .refine(text => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65_535, {
    error: 'must have a port of at most 65535',
  });

export const serverOptions = z.strictObject({
  listen: ListenAddress.default('0.0.0.0:10922').describe('Address and port of all routes.'),
  externalUrl: z
    .url({ protocol: /^https?$/, error: 'must be an http or https address' })
    .nullable()
    .default(null)
    .describe('The address others reach this at: for service discovery. Default: the host a request names.'),
});

/** Splits what ListenAddress allows. */
export function parseListen(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) };
}
