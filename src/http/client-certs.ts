import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { hostOf, type WebTls } from './options.ts';

/** Returns an IP address of a SAN in its shortest form, as Go and the web-config file write it. */
const shortAddress = (address: string) =>
  address.includes(':') ? (hostOf(`[${address}]`)?.slice(1, -1) ?? address) : address;

/**
 * Parses the names of a certificate as Node.js writes them: `DNS:a.example, IP Address:::1, URI:"…"`. Node.js quotes ambiguous
 * names as JSON.
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

/** Returns why a client is refused after its handshake; undefined if it is admitted. */
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

/** Returns the name in a client's verified certificate, or its serial number; undefined without a certificate. */
export function clientName(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  const name: string | string[] | undefined = socket.getPeerCertificate().subject?.CN;
  const common = Array.isArray(name) ? name[0] : name;
  return common ?? sansOf(certificate?.subjectAltName)[0] ?? certificate?.serialNumber;
}

/** TLS settings under which each connection was admitted. If the requirements for certificates change, clients must reconnect. */
export type Admission = ReturnType<typeof createAdmission>;

export function createAdmission() {
  const admitted = new WeakMap<Socket, WebTls>();
  const requirementsOf = ({ clientCa, allowedSans }: WebTls) => JSON.stringify([clientCa, allowedSans]);
  return {
    admit: (socket: Socket, tls: WebTls) => void admitted.set(socket, tls),
    isGood(socket: Socket, tls: WebTls): boolean {
      const by = admitted.get(socket);
      return by === tls || (by !== undefined && requirementsOf(by) === requirementsOf(tls));
    },
  };
}
