import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { WebTls } from './options.ts';

/** Client authentication types that require a client certificate. */
const REQUIRES_CERT: readonly WebTls['clientAuth'][] = [
  'RequireAnyClientCert',
  'RequireClientCert',
  'RequireAndVerifyClientCert',
];

/** Returns why a client is refused after its handshake, or undefined. */
export function refusalOf(socket: TLSSocket, { clientAuth }: WebTls): string | undefined {
  if (clientAuth === 'NoClientCert') return undefined;
  if (!socket.getPeerX509Certificate()) return REQUIRES_CERT.includes(clientAuth) ? 'no client certificate' : undefined;
  if (clientAuth.includes('Verify') && !socket.authorized) {
    return `client certificate not verified: ${socket.authorizationError}`;
  }
  return undefined;
}

/** Returns the name in a verified client certificate, or its serial number; undefined without a certificate. */
export function clientName(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  const name: string | string[] | undefined = socket.getPeerCertificate().subject?.CN;
  const common = Array.isArray(name) ? name[0] : name;
  return common ?? certificate?.subjectAltName ?? certificate?.serialNumber;
}

/** Records the TLS settings of each connection. When the client CA changes, clients must reconnect. */
export type Admission = ReturnType<typeof createAdmission>;

export function createAdmission() {
  const admitted = new WeakMap<Socket, WebTls>();
  return {
    admit: (socket: Socket, tls: WebTls) => void admitted.set(socket, tls),
    isGood(socket: Socket, tls: WebTls): boolean {
      const by = admitted.get(socket);
      return by !== undefined && by.clientCa === tls.clientCa;
    },
  };
}
