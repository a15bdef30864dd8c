import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { type Dispatcher, errors as undiciErrors, request as undiciRequest } from 'undici';
import { withDeadline } from '../kit/clock.ts';
import { askedWait } from './asked-wait.ts';
import type { Call, Endpoint, Request } from './call.ts';
import { reasonOfStatus, UpstreamError } from './errors.ts';
import { readJson } from './json-body.ts';
import { JsonFault } from './json-reader.ts';
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

/** The pieces of a body as they come, up to so many bytes. */
async function* bounded(
  pieces: AsyncIterable<Buffer>,
  what: string,
  largest: number,
  mayBeLarge: () => Promise<void>,
): AsyncGenerator<Buffer, void, void> {
  let size = 0;
  for await (const piece of pieces) {
    size += piece.length;
    if (size > largest) throw tooLarge(what, largest);
    if (size > LARGE) await mayBeLarge();
    yield piece;
  }
}

/** The same unpacked, as it comes. */
async function* unpacked(packed: AsyncIterable<Buffer>, what: string): AsyncGenerator<Buffer, void, void> {
  const gunzip = createGunzip({ chunkSize: UNPACKED_AT_A_TIME });
  const feeding = pipeline(packed, gunzip);
  // It is thrown here, too.
  feeding.catch(() => undefined);
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } catch (cause) {
    const isZlib = cause instanceof Error && 'code' in cause && String(cause.code).startsWith('Z_');
    throw isZlib ? new UpstreamError('invalid_response', `${what}: gzip damaged`, { cause }) : cause;
  } finally {
    gunzip.destroy();
  }
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
  return async ({ endpoint, method, address, path, query, largest, rowsOf, signal }, headers) => {
    const what = `${method} ${path}`;
    const url = new URL(`${addresses[address].replace(/\/+$/, '')}${path}`);
    url.search = query.toString();
    if (NEVER.test(url.pathname)) throw new UpstreamError('refused', `${what} is never sent`);
    const turn = largeBodies.turn();
    try {
      return await withDeadline(timeout, signal, async (deadline, own) => {
        const request = undiciRequest(url, {
          dispatcher,
          method,
          headers: { accept: 'application/json', 'accept-encoding': 'gzip', ...headers },
          signal: deadline,
        });
        const answer = await untilAborted(request, deadline);
        const mayBeLarge = () => turn.take(deadline);
        const packed = bounded(
          counted(answer.body, bytes => onBytes(endpoint, bytes)),
          what,
          largest,
          mayBeLarge,
        );
        const reason = reasonOfStatus(answer.statusCode);
        const wait = askedWait(answer.statusCode, answer.headers, now());
        if (reason) {
          // To its end, so that the connection can be used again.
          for await (const _piece of packed);
          throw new UpstreamError(reason, `${what}: status ${answer.statusCode}`, {
            retryAfter: wait,
            status: answer.statusCode,
          });
        }
        const encoding = String(answer.headers['content-encoding'] ?? 'identity').toLowerCase();
        const pieces = decoded(packed, encoding, what, largest, mayBeLarge);
        const body = await readJson(pieces, rowsOf, own).catch((error: unknown) => {
          if (!(error instanceof JsonFault)) throw error;
          if (error.kind === 'many') throw tooLarge(`${what}: ${error.message}`, largest);
          throw new UpstreamError('invalid_response', `${what}: not JSON`);
        });
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

async function* counted(body: AsyncIterable<Buffer>, onBytes: (bytes: number) => void) {
  for await (const piece of body) {
    onBytes(piece.length);
    yield piece;
  }
}

function decoded(
  packed: AsyncIterable<Buffer>,
  encoding: string,
  what: string,
  largest: number,
  mayBeLarge: () => Promise<void>,
): AsyncIterable<Buffer> {
  if (encoding === 'identity') return packed;
  if (encoding === 'gzip' || encoding === 'x-gzip') {
    return bounded(unpacked(packed, what), what, largest, mayBeLarge);
  }
  throw new UpstreamError('invalid_response', `${what}: unasked content encoding`);
}
