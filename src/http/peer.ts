import { createHmac, timingSafeEqual } from 'node:crypto';
import { get as getPlain, type IncomingMessage } from 'node:http';
import { get as getSecure } from 'node:https';
import { systemClock, withDeadline } from '../kit/clock.ts';

/** Requests from commands, and between agents that share a store. Only explanations and reports can be requested. */

export const REPORT_PATH = '/api/v1/report';
export const EXPLAIN_PATH = '/api/v1/explain';
/** Query parameter that marks a request forwarded by another replica, so that it is not forwarded again. */
export const FORWARDED = 'sentOn';

const SCHEME = 'Delivery-Watch';
/** Maximum clock skew (ms). A signature can be replayed for this long, with the same path and query. */
const SKEW = 600_000;
/** Timeout of a request to an agent (ms). */
const WITHIN = 5000;
const MAX_BODY_BYTES = 2 ** 24;

/**
 * Signs requests with a key from the store, which callers can read anyway. Passwords are never forwarded, because addresses
 * of replicas come from the database.
 */
export type PeerKey = ReturnType<typeof createPeerKey>;

/** Creates a key. `secret`: from the store. `now`: ms since the Unix epoch. */
export function createPeerKey(secret: string, now: () => number = systemClock.now) {
  const macOf = (at: string, target: string) => createHmac('sha256', secret).update(`${at}\n${target}`).digest();
  return {
    /** Returns the `Authorization` header for a GET request. `target`: path and query. */
    sign(target: string): string {
      const at = String(now());
      return `${SCHEME} ${at}.${macOf(at, target).toString('base64url')}`;
    },
    isSigned({
      method,
      url = '',
      headers: { authorization = '' },
    }: Pick<IncomingMessage, 'method' | 'url' | 'headers'>): boolean {
      const [, at = '', mac = ''] = /^Delivery-Watch (\d{1,15})\.([\w-]{43})$/.exec(authorization) ?? [];
      if (method !== 'GET' || !(url.startsWith(`${EXPLAIN_PATH}?`) || url === REPORT_PATH) || at === '') return false;
      return Math.abs(now() - Number(at)) <= SKEW && timingSafeEqual(Buffer.from(mac, 'base64url'), macOf(at, url));
    },
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

export interface PeerRequest extends Peer {
  readonly id: string;
  readonly account?: string | undefined;
  /** Whether the request is forwarded for another client. The agent then uses only its own accounts. */
  readonly isSentOn: boolean;
}

async function read(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new Error(`more than ${MAX_BODY_BYTES} bytes`);
  }
  return Buffer.concat(chunks).toString();
}

/** Requests JSON from an agent; undefined after a 404. Rejects if no valid response arrives. `target`: path and query. */
async function getJson({ url, key, isLocal }: Peer, target: string, signal: AbortSignal): Promise<unknown> {
  const base = new URL(url);
  const get = base.protocol === 'https:' ? getSecure : getPlain;
  const { status, text } = await withDeadline(WITHIN, signal, async deadline => {
    const options = { agent: false, signal: deadline, headers: { authorization: key.sign(target) } };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      get(new URL(target, base), { ...options, rejectUnauthorized: !isLocal }, resolve).on('error', reject);
    });
    return { status: response.statusCode, text: await read(response) };
  });
  if (status === 404) return undefined;
  if (status !== 200) throw new Error(`${base.origin} responded with status ${status}`);
  return JSON.parse(text);
}

/** Requests explanations from an agent; empty if it does not track the callback. Rejects if no valid response arrives. */
export async function requestPeer(
  { id, account, isSentOn, ...peer }: PeerRequest,
  signal: AbortSignal,
): Promise<readonly unknown[]> {
  const query = new URLSearchParams({
    id,
    ...(account !== undefined && { account }),
    ...(isSentOn && { [FORWARDED]: '1' }),
  });
  const found = (await getJson(peer, `${EXPLAIN_PATH}?${query}`, signal)) ?? [];
  if (!Array.isArray(found)) throw new Error(`${peer.url} sent an invalid response`);
  return found;
}

/** Requests the report of an agent. Rejects if no valid response arrives. */
export async function reportOfPeer(peer: Peer, signal: AbortSignal): Promise<object> {
  const found = await getJson(peer, REPORT_PATH, signal);
  if (typeof found !== 'object' || found === null) throw new Error(`${peer.url} sent an invalid response`);
  return found;
}
