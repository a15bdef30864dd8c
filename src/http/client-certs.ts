import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { hostOf, type WebTls } from './options.ts';

/** How Go, and so the file, writes the address of a SAN: as short as can be. */
const shortAddress = (address: string) =>
  address.includes(':') ? (hostOf(`[${address}]`)?.slice(1, -1) ?? address) : address;

/**
 * The names of a certificate: of `DNS:a.example, IP Address:::1, URI:"…"`, as Node.js writes them. It quotes, as JSON, what could be
 * taken for more than one.
 */
export function sansOf(text: string | undefined): string[] {
  const found: string[] = [];
  for (const [, kind, value = ''] of (text ?? '').matchAll(/(?:^|, )([\w ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?=, |$)/g)) {
    const name = value.startsWith('"') ? String(JSON.parse(value)) : value;
    if (kind === 'IP Address') found.push(shortAddress(name));
    else if (kind === 'DNS' || kind === 'URI' || kind === 'email') found.push(name);
  }
  return found;
}

const REQUIRED: readonly WebTls['clientAuth'][] = [
  'RequireAnyClientCert',
  'RequireClientCert',
  'RequireAndVerifyClientCert',
];

/** Why a client may not go on after its handshake; undefined when it may. */
export function refusalOf(socket: TLSSocket, { clientAuth, allowedSans }: WebTls): string | undefined {
  if (clientAuth === 'NoClientCert') return undefined;
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return REQUIRED.includes(clientAuth) ? 'no client certificate' : undefined;
  if (clientAuth.includes('Verify') && !socket.authorized) {
    return `client certificate not verified: ${socket.authorizationError}`;
  }
  const allowed = allowedSans?.map(shortAddress);
  if (!allowed || sansOf(certificate.subjectAltName).some(name => allowed.includes(name))) return undefined;
  return 'client certificate without an allowed SAN';
}

/** The name in a client's verified certificate, or else its number; undefined where the client has shown none. */
export function clientName(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  const name: string | string[] | undefined = socket.getPeerCertificate().subject?.CN;
  const common = Array.isArray(name) ? name[0] : name;
  return common ?? sansOf(certificate?.subjectAltName)[0] ?? certificate?.serialNumber;
}

/** The settings under which each connection was admitted: a client must not stay with a certificate that is no longer valid. */
export type Admission = ReturnType<typeof createAdmission>;

export function createAdmission() {
  const admitted = new WeakMap<Socket, WebTls>();
  const askedOf = ({ clientCa, allowedSans }: WebTls) => JSON.stringify([clientCa, allowedSans]);
  return {
    admit: (socket: Socket, tls: WebTls) => void admitted.set(socket, tls),
    /** Whether `tls` would admit a connection, too. */
    isGood(socket: Socket, tls: WebTls): boolean {
      const by = admitted.get(socket);
      return by === tls || (by !== undefined && askedOf(by) === askedOf(tls));
    },
  };
}
