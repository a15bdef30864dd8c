import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { type Dispatcher, errors as undiciErrors, request as undiciRequest } from 'undici';
import { withDeadline } from '../kit/clock.ts';
import { askedWait } from './asked-wait.ts';
import type { Call, Endpoint, Request } from './call.ts';
import { reasonOfStatus, UpstreamError } from './errors.ts';
import { isJsonBomb } from './json-bounds.ts';
import { createLargeBodies, LARGE, type LargeBodies } from './large-bodies.ts';

/** Base addresses of one account, by the word that requests use. */
export type Addresses = Readonly<Record<Request['address'], string>>;

export interface SendDeps {
  readonly addresses: Addresses;
  readonly dispatcher: Dispatcher;
  /** Milliseconds for one whole request, connecting included. */
  readonly timeout: number;
  /** Wall time, milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Told the bytes of bodies as they come over the wire, whatever becomes of the answer. */
  readonly onBytes: (endpoint: Endpoint, bytes: number) => void;
  /** Shared by whoever is sent to in this process; default: its own. */
  readonly largeBodies?: LargeBodies;
}

const unpack = promisify(gunzip);
/** Each piece costs a turn of the event loop, which in a busy process comes late. */
const UNPACKED_AT_A_TIME = 128 * 1024;

/** While a connection is made, a signal is not heard: what is waited for is then left behind, and closed should it come. */
export async function untilAborted(
  request: Promise<Dispatcher.ResponseData>,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const stopped = Promise.withResolvers<never>();
  const onAbort = () => stopped.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([request, stopped.promise]);
  } catch (error) {
    request.then(
      ({ body }) => body.destroy(),
      () => undefined,
    );
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function tooLarge(what: string, largest: number, cause?: unknown): UpstreamError {
  return new UpstreamError('invalid_response', `${what}: answer above ${largest} bytes`, { cause, tooLarge: true });
}

async function readBounded(
  body: AsyncIterable<Buffer>,
  what: string,
  largest: number,
  onBytes: (bytes: number) => void,
  mayBeLarge: () => Promise<void>,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    onBytes(chunk.length);
    if (size > largest) throw tooLarge(what, largest);
    if (size > LARGE) await mayBeLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}

export function toUpstreamError(error: unknown, what: string): UpstreamError {
  if (error instanceof UpstreamError) return error;
  if (!(error instanceof Error)) return new UpstreamError('bug', `${what}: failed`, { cause: error });
  if (
    error.name === 'TimeoutError' ||
    error instanceof undiciErrors.ConnectTimeoutError ||
    error instanceof undiciErrors.HeadersTimeoutError ||
    error instanceof undiciErrors.BodyTimeoutError
  ) {
    return new UpstreamError('timeout', `${what}: no answer in time`, { cause: error });
  }
  if (error instanceof undiciErrors.HTTPParserError || error instanceof undiciErrors.HeadersOverflowError) {
    return new UpstreamError('invalid_response', `${what}: not HTTP`, { cause: error });
  }
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined || error instanceof undiciErrors.InvalidArgumentError) {
    return new UpstreamError('bug', `${what}: ${error.message}`, { cause: error });
  }
  return new UpstreamError('network', `${what}: ${code}`, { cause: error });
}

/** On the real service this may rotate the keys that sign messages, whatever the method: it is never asked. */
const NEVER = /\/keys\/rotate\/*$/;

/** The innermost call: one HTTP exchange, bounded in time and size, no redirect followed, its JSON parsed. */
export function createSend({ addresses, dispatcher, timeout, now, onBytes, ...deps }: SendDeps): Call {
  const { largeBodies = createLargeBodies() } = deps;
  return async ({ endpoint, method, address, path, query, largest, signal }, headers) => {
    const what = `${method} ${path}`;
    const url = new URL(`${addresses[address].replace(/\/+$/, '')}${path}`);
    url.search = query.toString();
    if (NEVER.test(url.pathname)) throw new UpstreamError('refused', `${what} is never sent`);
    const turn = largeBodies.turn();
    try {
      return await withDeadline(timeout, signal, async deadline => {
        const request = undiciRequest(url, {
          dispatcher,
          method,
          headers: { accept: 'application/json', 'accept-encoding': 'gzip', ...headers },
          signal: deadline,
        });
        const answer = await untilAborted(request, deadline);
        const mayBeLarge = () => turn.take(deadline);
        const packed = await readBounded(answer.body, what, largest, bytes => onBytes(endpoint, bytes), mayBeLarge);
        const reason = reasonOfStatus(answer.statusCode);
        const wait = askedWait(answer.statusCode, answer.headers, now());
        if (reason) {
          throw new UpstreamError(reason, `${what}: status ${answer.statusCode}`, {
            retryAfter: wait,
            status: answer.statusCode,
          });
        }
        const body = await decode(
          packed,
          String(answer.headers['content-encoding'] ?? 'identity').toLowerCase(),
          what,
          largest,
          mayBeLarge,
        );
        return { status: answer.statusCode, body, wait };
      });
    } catch (error) {
      // Stopping is no failure of the service: the reason goes up as it is.
      if (signal.aborted) throw signal.reason;
      throw toUpstreamError(error, what);
    } finally {
      turn.end();
    }
  };
}

const isTooLong = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';

/** How long it becomes is known only by unpacking, so that a large one is unpacked once more when it is its turn. */
async function unpackBounded(
  packed: Buffer,
  what: string,
  largest: number,
  mayBeLarge: () => Promise<void>,
): Promise<Buffer> {
  const unpackUpTo = (maxOutputLength: number) => unpack(packed, { maxOutputLength, chunkSize: UNPACKED_AT_A_TIME });
  try {
    return await unpackUpTo(Math.min(LARGE, largest));
  } catch (cause) {
    if (!isTooLong(cause)) throw new UpstreamError('invalid_response', `${what}: gzip damaged`, { cause });
    if (largest <= LARGE) throw tooLarge(what, largest, cause);
  }
  await mayBeLarge();
  return unpackUpTo(largest).catch((cause: unknown) => {
    if (isTooLong(cause)) throw tooLarge(what, largest, cause);
    throw new UpstreamError('invalid_response', `${what}: gzip damaged`, { cause });
  });
}

async function decode(
  packed: Buffer,
  encoding: string,
  what: string,
  largest: number,
  mayBeLarge: () => Promise<void>,
): Promise<unknown> {
  let text = packed;
  if (encoding === 'gzip' || encoding === 'x-gzip') {
    text = await unpackBounded(packed, what, largest, mayBeLarge);
  } else if (encoding !== 'identity') {
    throw new UpstreamError('invalid_response', `${what}: unasked content encoding`);
  }
  if (isJsonBomb(text)) throw tooLarge(`${what}: too many values`, largest);
  try {
    // A byte order mark is no JSON, and harmless.
    return JSON.parse(text.toString('utf8').replace(/^\ufeff/, ''));
  } catch {
    // The parser's own message quotes the body, so it is not kept.
    throw new UpstreamError('invalid_response', `${what}: not JSON`);
  }
}
