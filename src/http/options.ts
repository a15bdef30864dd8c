import { isIPv6 } from 'node:net';
import { z } from 'zod';
import { BOUNDS } from './bounds.ts';
import { hostOf } from './host.ts';

/** `host:port`; an IPv6 host in brackets; port 0 takes any free one. */
export const ListenAddress = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s:[\]/]+):\d{1,5}$/, {
    error: 'must be host:port, such as 127.0.0.1:10922 or [::]:10922',
  })
  .refine(text => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65_535, {
    error: 'must have a port of at most 65535',
  });

/** A host as it is compared: see `hostOf`. */
const allowedHost = z.string().transform((text, context) => {
  // An IPv6 address may stand there without its brackets.
  const literal = isIPv6(text) ? `[${text}]` : text;
  const host = /^(\[.*\]|[^:]*)$/.test(literal) ? hostOf(literal) : undefined;
  if (host !== undefined) return host;
  context.addIssue({
    code: 'custom',
    message: 'must be a host name or an address without scheme and port, such as dw.example.com or [::1]',
  });
  return z.NEVER;
});

export const serverOptions = z.strictObject({
  listen: ListenAddress.default('0.0.0.0:10922').describe('Address and port of all routes.'),
  externalUrl: z
    .url({ protocol: /^https?$/, error: 'must be an http or https address' })
    .nullable()
    .default(null)
    .describe('The address others reach this at: for service discovery. Default: the host a request names.'),
  maxConnections: z
    .int()
    .min(1)
    .max(100_000)
    .default(BOUNDS.maxConnections)
    .describe(
      'Connections at the same time; more are refused. An answer that a client does not take within 30 s is cut: see docs/bounds.md.',
    ),
  allowedHosts: z
    .array(allowedHost)
    .default([])
    .describe(
      'Host names and addresses, without port, that requests to any route must name as their Host, such as `[dw.example.com]`; others are answered with 421. It keeps web pages from reading this port by a name of their own (DNS rebinding). Kubernetes probes name the address of the pod: set `httpHeaders` there. The health check of the Docker image names `127.0.0.1`. Default: any host.',
    ),
});

/** Splits what ListenAddress allows. */
export function parseListen(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) };
}
