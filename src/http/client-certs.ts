import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { hostOf, REQUIRES_CERT, type WebTls } from './options.ts';

/** Returns an IP address in its shortest form, as in the web-config file. */
const shortAddress = (address: string) =>
  address.includes(':') ? (hostOf(`[${address}]`)?.slice(1, -1) ?? address) : address;

/** Parses Node's text form of a certificate's names: `DNS:a.example, IP Address:::1, URI:"…"`. Ambiguous names are quoted as JSON. */
export function sansOf(text: string | undefined): string[] {
  const found: string[] = [];
  for (const [, kind, value = ''] of (text ?? '').matchAll(/(?:^|, )([\w ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?=, |$)/g)) {
    const name = value.startsWith('"') ? String(JSON.parse(value)) : value;
    if (kind === 'IP Address') found.push(shortAddress(name));
    else if (kind === 'DNS' || kind === 'URI' || kind === 'email') found.push(name);
  }
  return found;
}

/** Returns why a client is refused after its handshake, or undefined. */
export function refusalOf(socket: TLSSocket, { clientAuth, allowedSans }: WebTls): string | undefined {
  if (clientAuth === 'NoClientCert') return undefined;
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return REQUIRES_CERT.includes(clientAuth) ? 'no client certificate' : undefined;
  if (clientAuth.includes('Verify') && !socket.authorized) {
    return `client certificate not verified: ${socket.authorizationError}`;
  }
  const allowed = allowedSans?.map(shortAddress);
  if (!allowed || sansOf(certificate.subjectAltName).some(name => allowed.includes(name))) return undefined;
  return 'client certificate without an allowed SAN';
}

/** Returns the name in a verified client certificate, or its serial number; undefined without a certificate. */
export function clientName(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  const name: string | string[] | undefined = socket.getPeerCertificate().subject?.CN;
  const common = Array.isArray(name) ? name[0] : name;
  return common ?? sansOf(certificate?.subjectAltName)[0] ?? certificate?.serialNumber;
}

/** Records the TLS settings of each connection. When the rules for certificates change, clients must reconnect. */
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
