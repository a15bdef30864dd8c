import { createHmac, timingSafeEqual } from 'node:crypto';
import { get as getPlain, type IncomingMessage } from 'node:http';
import { get as getSecure } from 'node:https';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { systemClock, withDeadline } from '../kit/clock.ts';

/** GET requests from commands, and from a standby to the leader of its store. */

export const REPORT_PATH = '/api/v1/report';
export const EXPLAIN_PATH = '/api/v1/explain';
export const HEALTH_PATH = '/-/healthy';
export const HEALTHY = 'delivery-watch is healthy\n';

const SCHEME = 'Delivery-Watch';
/** Response header with the signature of a response. */
export const SIGNATURE = 'Delivery-Watch-Signature';
/** Response to a request that is signed with another key. */
export const FOREIGN_KEY = 'the request is not signed with the key of this store';
/** Maximum clock skew (ms). A signature can be replayed for this long, with the same path and query. */
const SKEW = 600_000;
/** Timeout of requests from commands, and timeout of requests that a standby forwards, which may be look-ups (ms). */
const [WITHIN, FORWARDED_WITHIN] = [5000, 15_000];
const MAX_BODY_BYTES = 2 ** 24;

/**
 * Signs requests and responses with a key from the store, which callers can read anyway. Passwords are never forwarded, because
 * the leader's address comes from the database.
 */
export type PeerKey = ReturnType<typeof createPeerKey>;

/** Creates a key. `secret`: from the store. `now`: ms since the Unix epoch. `ownHealth`: from `healthPathOf`. */
export function createPeerKey(secret: string, now: () => number = systemClock.now, ownHealth = HEALTH_PATH) {
  const macOf = (head: string, body: string | Buffer) =>
    createHmac('sha256', secret).update(`${head}\n`).update(body).digest('base64url');
  // `timingSafeEqual` throws if the lengths in bytes differ. `other` is ASCII.
  const isSame = (one: string, other: string) =>
    Buffer.byteLength(one) === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));
  return {
    /** Returns the `Authorization` header for a GET request. `target`: path and query. */
    sign(target: string): string {
      const at = String(now());
      return `${SCHEME} ${at}.${macOf(at, target)}`;
    },
    isSigned({ method, url = '', headers }: IncomingMessage): boolean {
      const [, at = '', mac = ''] = /^Delivery-Watch (\d{1,15})\.(.{43})$/.exec(headers.authorization ?? '') ?? [];
      const isServed = !url.startsWith(HEALTH_PATH) || [HEALTH_PATH, ownHealth].includes(url);
      return method === 'GET' && isServed && Math.abs(now() - Number(at)) <= SKEW && isSame(mac, macOf(at, url));
    },
    /** Signs a response together with the header of its request, so that the signature is invalid for any later request. */
    signResponse: (authorization: string, status: number, body: string | Buffer): string =>
      macOf(`${authorization}\n${status}`, body),
    isSame,
  };
}

/** Whether the sender of a request believes that this agent uses its store. */
export const isPeerRequest = ({ headers: { authorization = '' } }: Pick<IncomingMessage, 'headers'>): boolean =>
  authorization.startsWith(`${SCHEME} `);

export interface Peer {
  readonly url: string;
  readonly key: PeerKey;
  /** Whether the agent is on this machine. If so, its certificate does not have to name the address. */
  readonly isLocal: boolean;
}

async function read(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new Error(`more than ${MAX_BODY_BYTES} bytes`);
  }
  return Buffer.concat(chunks);
}

/** Sends a signed request. Rejects if no response arrives. `target`: path and query. */
async function send(
  { url, key, isLocal }: Peer,
  target: string,
  signal: AbortSignal,
  { within = WITHIN, headers: more = {} } = {},
) {
  const { protocol, pathname } = new URL(url);
  const get = protocol === 'https:' ? getSecure : getPlain;
  // A proxy removes the path of the agent's URL. Resolving the target as a URL would send `//host/path` to another host, and
  // change the signed text.
  const path = pathname.replace(/\/$/, '') + target;
  const authorization = key.sign(target);
  return withDeadline(within, signal, async deadline => {
    const headers = { ...more, authorization };
    const options = { path, agent: false, signal: deadline, headers, rejectUnauthorized: !isLocal };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      // A response with status 101 ends with `close` alone.
      get(url, options, resolve)
        .on('error', reject)
        .on('close', () => reject(new Error('the connection was closed')));
    });
    const { statusCode: status = 0, headers: received } = response;
    const body = await read(response);
    const expected = key.signResponse(authorization, status, body);
    const isSigned = key.isSame(String(received[SIGNATURE.toLowerCase()]), expected);
    return { status, headers: received, body, isSigned };
  });
}

/** Requests JSON from an agent; undefined after a 404. Rejects if no valid response arrives. `target`: path and query. */
async function getJson(peer: Peer, target: string, signal: AbortSignal): Promise<unknown> {
  const { status, body, isSigned } = await send(peer, target, signal);
  if (status !== 200 && status !== 404) throw new Error(`${peer.url} responded with status ${status}`);
  if (!isSigned) throw new Error(`${peer.url} did not sign its response`);
  return status === 404 ? undefined : JSON.parse(body.toString());
}

/** Request headers that a standby forwards, and response headers that it returns. */
const ASKED = ['accept', 'accept-encoding'] as const;
const RETURNED =
  /^(content-(type|encoding|security-policy)|vary|cache-control|location|retry-after|referrer-policy|x-frame-options)$/;

/** Forwards a request to the leader. Rejects with the cause, without the leader's URL, if no signed response arrives. */
export async function forwardToPeer(
  peer: Peer,
  { url: target = '/', headers: given }: Pick<IncomingMessage, 'url' | 'headers'>,
  signal: AbortSignal,
) {
  const headers = Object.fromEntries(ASKED.flatMap(name => (given[name] === undefined ? [] : [[name, given[name]]])));
  const options = { headers, within: FORWARDED_WITHIN };
  const { status, body, isSigned, ...found } = await send(peer, target, signal, options);
  if (!isSigned)
    throw new Error(
      `its response with status ${status} is not signed with the key of this store: check its clock and server.replicaUrl`,
    );
  const returned = Object.entries(found.headers).filter(([name]) => RETURNED.test(name));
  return { status, body, headers: { ...Object.fromEntries(returned), 'content-length': body.length } };
}

/** Returns the path of the health check of one of several agents with the same key. `file`: its configuration file. */
export const healthPathOf = (file: string): string =>
  `${HEALTH_PATH}?agent=${encodeURIComponent(`${hostname()}:${resolve(file)}`)}`;

/** Requests the health of an agent. Rejects if no agent responds or, with `hasKey`, if the agent has another key. */
export async function healthOfPeer(peer: Peer, hasKey: boolean, path: string, signal: AbortSignal): Promise<void> {
  const { isSigned, body } = await send(peer, path, signal);
  // The port for probes ignores a signature with another key.
  const isAgent = isSigned || (!hasKey && [`${FOREIGN_KEY}\n`, HEALTHY].includes(body.toString()));
  if (!isAgent) throw new Error('another program responds');
}

/** Requests explanations from an agent; empty if it does not track the callback. Rejects if no valid response arrives. */
export async function requestPeer(
  { id, account, ...peer }: Peer & { readonly id: string; readonly account?: string | undefined },
  signal: AbortSignal,
): Promise<readonly unknown[]> {
  const query = new URLSearchParams({ id, ...(account !== undefined && { account }) });
  const found = (await getJson(peer, `${EXPLAIN_PATH}?${query}`, signal)) ?? [];
  if (!Array.isArray(found)) throw new Error(`${peer.url} sent an invalid response`);
  return found;
}

/** Requests the report of an agent. Rejects if no signed response arrives. */
export const reportOfPeer = (peer: Peer, signal: AbortSignal): Promise<unknown> => getJson(peer, REPORT_PATH, signal);
