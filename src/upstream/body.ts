import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import pLimit from 'p-limit';
import { unlessAborted } from '../kit/clock.ts';
import { createYielder } from '../kit/yielder.ts';
import { UpstreamError } from './errors.ts';

export interface BodyBounds {
  readonly what: string;
  /** Maximum size, compressed and decompressed (bytes). */
  readonly largest: number;
}

const MIB = 1024 * 1024;
/** Maximum size of a body that is kept without a reservation, and parsed at once (bytes): the worst case takes 0.15 s. */
const SMALL = MIB;
/** Largest value of `largest` (bytes). A list of 100,000 flow-control keys has 23 MiB. */
export const MAX_LIST_BYTES = 32 * MIB;
/** `largest` for a page of a list (bytes): parsing 16 MiB of ordinary rows takes 0.05 to 0.15 s. */
export const MAX_PAGE_BYTES = 16 * MIB;
/** Memory for larger bodies until they are parsed, shared by all accounts (bytes). */
const MAX_MEMORY = 128 * MIB;
/** Size of the blocks of a buffered body (bytes). The first blocks are smaller. */
const BLOCK = 64 * 1024;
const SMALLEST_BLOCK = 4096;
/**
 * Maximum number of list elements and object members in a body larger than `SMALL`. Parsing as many members with different
 * names takes up to 3 s. A list of 100,000 flow-control keys has 900,000 members.
 */
const MAX_VALUES = 1_000_000;
/** Maximum depth of nesting. JSON.parse is slow for deeper texts: 1.2 s for 16 MiB of brackets. */
const MAX_DEPTH = 200;

/** Limits the size of a body. Throws UpstreamError (`tooLarge`) above `largest` bytes. */
export async function* bounded(
  chunks: AsyncIterable<Buffer>,
  { what, largest }: BodyBounds,
  onBytes: (bytes: number) => void = () => undefined,
): AsyncGenerator<Buffer, void, void> {
  let size = 0;
  for await (const chunk of chunks) {
    onBytes(chunk.length);
    size += chunk.length;
    if (size > largest) {
      const message = `${what}: response body of at least ${size} bytes; the limit is ${largest} bytes`;
      throw new UpstreamError('invalid_response', message, { tooLarge: true });
    }
    yield chunk;
  }
}

/**
 * Size of decompressed chunks (bytes). Each waits for a turn of the event loop, so small chunks are slow if the loop is busy.
 */
const DECOMPRESSED_CHUNK = 128 * 1024;

async function* decompressed(packed: AsyncIterable<Buffer>, what: string): AsyncGenerator<Buffer, void, void> {
  const gunzip = createGunzip({ chunkSize: DECOMPRESSED_CHUNK });
  const feeding = pipeline(packed, gunzip);
  // The iteration below rethrows this error: prevent an unhandled rejection.
  feeding.catch(() => undefined);
  try {
    yield* gunzip as AsyncIterable<Buffer>;
  } catch (cause) {
    const isZlib = cause instanceof Error && 'code' in cause && String(cause.code).startsWith('Z_');
    throw isZlib ? new UpstreamError('invalid_response', `${what}: invalid gzip data`, { cause }) : cause;
  } finally {
    gunzip.destroy();
  }
}

function decoded(packed: AsyncIterable<Buffer>, encoding: string, bounds: BodyBounds): AsyncIterable<Buffer> {
  if (encoding === 'identity') return packed;
  if (encoding === 'gzip' || encoding === 'x-gzip') return bounded(decompressed(packed, bounds.what), bounds);
  throw new UpstreamError('invalid_response', `${bounds.what}: unexpected content encoding`);
}

/** Shared by all accounts: large bodies are parsed in separate turns of the event loop. */
const turns = createYielder();

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [LEFT_BRACKET, RIGHT_BRACKET, LEFT_BRACE, RIGHT_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Throws UpstreamError (`tooLarge`) if a JSON text has too many levels or values. Yields to the event loop between slices. */
async function checkShape(text: Buffer, what: string): Promise<void> {
  let [depth, deepest, values, isString, isEscaped] = [0, 0, 0, false, false];
  for (let at = 0; at < text.length; ) {
    await turns.pass();
    for (const end = Math.min(at + BLOCK, text.length); at < end; at += 1) {
      const byte = text[at];
      if (isEscaped) isEscaped = false;
      else if (byte === QUOTE) isString = !isString;
      else if (isString) isEscaped = byte === BACKSLASH;
      else if (byte === COMMA) values += 1;
      else if (byte === LEFT_BRACKET || byte === LEFT_BRACE) {
        depth += 1;
        values += 1;
        if (depth > deepest) deepest = depth;
      } else if (byte === RIGHT_BRACKET || byte === RIGHT_BRACE) depth -= 1;
    }
    const excess = deepest > MAX_DEPTH ? `${MAX_DEPTH} levels` : values > MAX_VALUES && `${MAX_VALUES} values`;
    if (!excess) continue;
    const message = `${what}: response body with more than ${excess}`;
    throw new UpstreamError('invalid_response', message, { tooLarge: true });
  }
}

function parse(bytes: Buffer, what: string): unknown {
  const text = bytes.toString();
  try {
    // A byte order mark is not JSON, but harmless.
    return JSON.parse(text.startsWith('\ufeff') ? text.slice(1) : text);
  } catch {
    // The parser's message quotes the body, so it is discarded.
    throw new UpstreamError('invalid_response', `${what}: not JSON`);
  }
}

/**
 * Shares `total` bytes among bodies, each of which reserves at most `largest` bytes in any number of steps.
 *
 * All bodies except the oldest hold at most `total - largest` bytes together, so the oldest never waits for memory. The oldest
 * ends at its request's timeout at the latest, and the next one becomes the oldest. So bodies cannot block each other forever.
 */
export function createBodyMemory(total: number, largest: number) {
  /** Oldest first. */
  const bodies = new Set<object>();
  let used = 0;
  let released = Promise.withResolvers<void>();
  return {
    used: () => used,
    open() {
      const body = {};
      let held = 0;
      bodies.add(body);
      return {
        /** Reserves more bytes. Waits until they are free; throws the signal's reason if it is aborted first. */
        async add(bytes: number, signal: AbortSignal): Promise<void> {
          signal.throwIfAborted();
          const isOldest = () => bodies.values().next().value === body;
          while (used + bytes > total - largest && !isOldest()) {
            await unlessAborted(released.promise, signal);
            signal.throwIfAborted();
          }
          held += bytes;
          used += bytes;
        },
        /** Releases all bytes. Must be called exactly once. */
        release(): void {
          bodies.delete(body);
          used -= held;
          released.resolve();
          released = Promise.withResolvers();
        },
      };
    },
  };
}

const memory = createBodyMemory(MAX_MEMORY, MAX_LIST_BYTES);
const parsing = pLimit(1);

/** Parses a large body after all earlier ones, in a separate turn of the event loop. Removes its blocks from `blocks`. */
const parseLarge = (blocks: Buffer[], size: number, what: string, signal: AbortSignal) =>
  parsing(async () => {
    signal.throwIfAborted();
    const bytes = Buffer.concat(blocks.splice(0), size);
    await checkShape(bytes, what);
    await turns.pass();
    return parse(bytes, what);
  });

/** Returns the text of a small body with this Content-Encoding. Throws UpstreamError. */
export async function readBodyText(
  packed: AsyncIterable<Buffer>,
  encoding: string,
  bounds: BodyBounds,
): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of decoded(packed, encoding.toLowerCase(), bounds)) chunks.push(chunk);
  // Removes a byte order mark.
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** Returns the JSON value of a body with this Content-Encoding. Throws UpstreamError or the reason of `signal`. */
export async function readBody(
  packed: AsyncIterable<Buffer>,
  encoding: string,
  bounds: BodyBounds,
  signal = new AbortController().signal,
): Promise<unknown> {
  let reservation: ReturnType<typeof memory.open> | undefined;
  // Chunks are copied, because a chunk of one byte would take 100 bytes of memory.
  const blocks: Buffer[] = [];
  let size = 0;
  let free = Buffer.alloc(0);
  try {
    for await (const chunk of decoded(packed, encoding.toLowerCase(), bounds)) {
      for (let copied = 0; copied < chunk.length; ) {
        if (free.length === 0) {
          if (size >= SMALL) {
            reservation ??= memory.open();
            await reservation.add(BLOCK, signal);
          }
          free = Buffer.allocUnsafeSlow(Math.min(Math.max(size, SMALLEST_BLOCK), BLOCK));
          blocks.push(free);
        }
        const length = chunk.copy(free, 0, copied);
        free = free.subarray(length);
        copied += length;
        size += length;
      }
    }
    if (size > SMALL) return await parseLarge(blocks, size, bounds.what, signal);
    return parse(Buffer.concat(blocks, size), bounds.what);
  } finally {
    reservation?.release();
  }
}

/** Passes rows to `take`, and yields to the event loop between slices of a long list. */
export async function inSlices<Row>(rows: readonly Row[], take: (row: Row) => void): Promise<void> {
  for (const row of rows) {
    const turn = turns.pass();
    if (turn) await turn;
    take(row);
  }
}
