import { isIPv6 } from 'node:net';
import type { SecureContextOptions } from 'node:tls';
import { z } from 'zod';
import type { Secret } from '../kit/secret.ts';
import { BOUNDS } from './bounds.ts';

/** `host:port`, with an IPv6 host in brackets. Port 0 selects a free port. */
const ListenAddress = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.]+\]|[^\s:[\]/]+):\d{1,5}$/, {
    error: 'must be host:port, such as 127.0.0.1:10922 or [::]:10922',
  })
  .refine(text => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65_535, {
    error: 'must have a port of at most 65535',
  });

/**
 * Normalizes the host of a Host header: lower case, without port and trailing dot, IPv6 in brackets. Returns undefined if it
 * is invalid.
 */
export function hostOf(header: string | undefined): string | undefined {
  // The host becomes part of a URL: reject other characters.
  if (!/^[\w.:[\]-]+$/.test(header ?? '')) return undefined;
  return URL.parse(`http://${header}`)?.hostname.replace(/\.$/, '') || undefined;
}

/** A host, normalized by `hostOf`. */
const allowedHost = z.string().transform((text, context) => {
  // The brackets of an IPv6 address are optional.
  const literal = isIPv6(text) ? `[${text}]` : text;
  const host = /^(\[.*\]|[^:]*)$/.test(literal) ? hostOf(literal) : undefined;
  if (host !== undefined) return host;
  context.addIssue('must be a host name or an address without scheme and port, such as dw.example.com or [::1]');
  return z.NEVER;
});

/** Returns why the URL of a process is invalid; undefined if it is valid. */
export function replicaUrlError(text: string): string | undefined {
  const url = URL.parse(text);
  const isBare = url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  return isBare && url.search === '' && url.hash === ''
    ? undefined
    : 'must be an http or https address, such as http://10.0.0.7:10922';
}

const replicaUrl = z
  .union([z.string(), z.strictObject({ env: z.string().min(1) })], { error: 'must be an address or { env: NAME }' })
  .superRefine((setting, context) => {
    const message = typeof setting === 'string' && replicaUrlError(setting);
    if (message) context.addIssue({ code: 'custom', message });
  });

export const serverOptions = z.strictObject({
  listen: ListenAddress.default('0.0.0.0:10922').describe(
    'Address (`host:port`) for all routes. Write an IPv6 host in brackets.',
  ),
  public: z
    .boolean()
    .default(false)
    .describe(
      '`true` confirms that everyone who can reach the port may read the data. This only turns off the warning about a port without authentication.',
    ),
  probesListen: ListenAddress.nullable()
    .default(null)
    .describe(
      'Address (`host:port`) of a second listener, without TLS, authentication or Host check. It serves only `/-/healthy` and `/-/ready`.',
    ),
  externalUrl: z
    .url({ protocol: /^https?$/, error: 'must be an http or https address' })
    .nullable()
    .default(null)
    .describe(
      'URL at which users and Prometheus reach this agent, used in links and in service discovery (`/api/v1/sd`). Default: the Host header of the request.',
    ),
  replicaUrl: replicaUrl
    .nullable()
    .default(null)
    .describe(
      'For `store.kind: postgres`: URL at which standbys and Prometheus reach this process. If several processes share the configuration file, use `{ env: NAME }`. Default: from `listen` and the host name.',
    ),
  lifecycle: z
    .boolean()
    .default(false)
    .describe(
      'Whether POST routes are enabled: `/-/reload` and, for authenticated users, `/api/v1/auto-cancel/{approve,pause,resume}`. Disabled routes return 403.',
    ),
  maxConnections: z
    .int()
    .min(1)
    .max(100_000)
    .default(BOUNDS.maxConnections)
    .describe(
      'Maximum number of open connections. At the limit, a new connection replaces the one that has been idle longest. If none is idle, the new one is refused.',
    ),
  allowedHosts: z
    .array(allowedHost)
    .default([])
    .describe(
      'Allowed hosts in the Host header of requests, such as `[dw.example.com]`. Requests with another host get 421. This prevents DNS rebinding. Default: any host.',
    ),
  webConfigFile: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe(
      'File with settings for TLS, client certificates and users, reloaded when it changes: see docs/access.md. The format is a subset of Prometheus’ `--web.config.file`.',
    ),
});

export const CLIENT_AUTH = [
  'NoClientCert',
  'RequestClientCert',
  'RequireAnyClientCert',
  'RequireClientCert',
  'VerifyClientCertIfGiven',
  'RequireAndVerifyClientCert',
] as const;

/** TLS settings. Certificates and keys are in PEM. */
export interface WebTls {
  readonly cert: string;
  readonly key: Secret;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  readonly clientAuth: (typeof CLIENT_AUTH)[number];
  readonly clientCa: string | undefined;
}

export function contextOf({ cert, key, minVersion, clientCa }: WebTls): SecureContextOptions {
  return { cert, key: key.reveal(), minVersion, ...(clientCa === undefined ? {} : { ca: clientCa }) };
}

export interface WebConfig {
  readonly tls: WebTls | undefined;
  /** bcrypt hashes by user; empty disables password authentication. */
  readonly users: ReadonlyMap<string, Secret>;
  /** `fileStamp` of each file, taken before the file was read. */
  readonly stamps: ReadonlyMap<string, string>;
}

/** Hosts that stand for all addresses of the machine. */
export const ANY_HOST: readonly string[] = ['0.0.0.0', '::'];

/** Whether two addresses conflict: a process can listen on only one of them. */
export function isSamePort(one: string, other: string): boolean {
  const [a, b] = [parseListen(one), parseListen(other)];
  return (
    a.port === b.port && a.port !== 0 && (a.host === b.host || [a.host, b.host].some(host => ANY_HOST.includes(host)))
  );
}

/** Splits a valid ListenAddress. */
export function parseListen(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) };
}
