import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import { createGunzip } from 'node:zlib';
import { unlessAborted } from '../kit/clock.ts';
import { createYielder } from '../kit/yielder.ts';
import { UpstreamError } from './errors.ts';

export interface BodyBounds {
  readonly what: string;
  /** Maximum size, compressed and decompressed (bytes). */
  readonly largest: number;
}

/** Maximum length of a text that is parsed in one piece (characters): the worst case takes 0.1 s. */
const SMALL = 1024 * 1024;
/** Maximum number of list elements and object members in a larger text. A list of 100,000 flow-control keys has 900,000. */
const MAX_VALUES = 1_000_000;
/** Rows of a larger text are parsed in pieces of about this length (characters). */
const PIECE = 64 * 1024;
/**
 * Maximum number of values in one piece (at least one row), and of values outside of pieces. Parsing them takes at most 0.2 s.
 */
const MAX_PIECE_VALUES = 100_000;
/** Maximum depth of nesting. JSON.parse is slow for deeper texts: 4 s for 32 MiB of brackets. */
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

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Shared by all accounts, so that large responses do not add up to one long block of the event loop. */
const turns = createYielder();

/** Returns the position of the quote that ends the string starting at `from`; the text's length if it is unterminated. */
function endOfString(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at += 1;
  }
  return text.length;
}

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the body, so it is discarded.
    throw new UpstreamError('invalid_response', `${what}: not JSON`);
  }
}

/**
 * Parses the rows of a large body in pieces and yields to the event loop in between, because JSON.parse can take seconds or minutes
 * for a body with a million different names. Rows are the objects and arrays in a list that is the body or a member of it. Throws
 * UpstreamError.
 */
async function parseInPieces(text: string, what: string): Promise<unknown> {
  // The body, with `[index]` in place of each piece.
  let outline = '';
  const pieces: unknown[][] = [];
  let [copied, start, end] = [0, 0, 0];
  // Depth of a list's elements; 0 outside of lists.
  let rowDepth = 0;
  let [values, outerValues, pieceValues, depth] = [0, 0, 0, 0];
  const count = () => {
    values += 1;
    if (start > 0) pieceValues += 1;
    else outerValues += 1;
    const excess =
      (depth > MAX_DEPTH && `${MAX_DEPTH} levels`) ||
      (values > MAX_VALUES && `${MAX_VALUES} values`) ||
      (pieceValues > MAX_PIECE_VALUES && `${MAX_PIECE_VALUES} values in a row`) ||
      (outerValues > MAX_PIECE_VALUES && `${MAX_PIECE_VALUES} values outside of rows`);
    if (!excess) return;
    const message = `${what}: response body with more than ${excess}`;
    throw new UpstreamError('invalid_response', message, { tooLarge: true });
  };
  for (let at = 0; at < text.length; at += 1) {
    switch (text[at]) {
      case '"':
        at = endOfString(text, at + 1);
        break;
      case '[':
      case '{':
        if (rowDepth === 0 && depth <= 1 && text[at] === '[') rowDepth = depth + 1;
        else if (rowDepth > 0 && rowDepth === depth && start === 0) start = at;
        depth += 1;
        count();
        break;
      case ']':
      case '}':
        depth -= 1;
        // The last piece includes the values after the last row.
        if (start > 0 && depth <= rowDepth) end = depth === rowDepth ? at + 1 : at;
        if (end > 0 && (depth < rowDepth || end - start >= PIECE)) {
          await turns.pass();
          outline += `${text.slice(copied, start)}[${pieces.length}]`;
          pieces.push(parse(`[${text.slice(start, end)}]`, what) as unknown[]);
          [copied, start, end, pieceValues] = [end, 0, 0, 0];
        }
        if (depth < rowDepth) rowDepth = 0;
        break;
      case ',':
        count();
    }
  }
  await turns.pass();
  const body = parse(outline + text.slice(copied), what);
  const isObject = typeof body === 'object' && body !== null;
  for (const list of Array.isArray(body) ? [body] : isObject ? Object.values(body) : []) {
    if (!Array.isArray(list)) continue;
    const elements = list.splice(0).flatMap(element => (Array.isArray(element) ? pieces[element[0]] : [element]));
    for (const element of elements) list.push(element);
  }
  return body;
}

/** To bound memory, at most `MAX_LARGE` bodies longer than this (characters) are read concurrently, across all accounts. */
const LARGE = 4 * 1024 * 1024;
const MAX_LARGE = 2;
const waiting = new Set<() => void>();
let free = MAX_LARGE;

function releaseSlot(): void {
  const [next] = waiting;
  if (next) {
    waiting.delete(next);
    next();
  } else free += 1;
}

async function acquireSlot(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (free > 0) {
    free -= 1;
    return;
  }
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.add(resolve);
  try {
    await unlessAborted(promise, signal);
  } catch (error) {
    if (!waiting.delete(resolve)) releaseSlot();
    throw error;
  }
}

/** Returns the JSON value of a body with this Content-Encoding. Throws UpstreamError or the reason of `signal`. */
export async function readBody(
  packed: AsyncIterable<Buffer>,
  encoding: string,
  bounds: BodyBounds,
  signal = new AbortController().signal,
): Promise<unknown> {
  const decoder = new StringDecoder('utf8');
  let text = '';
  let isLarge = false;
  try {
    for await (const chunk of decoded(packed, encoding.toLowerCase(), bounds)) {
      text += decoder.write(chunk);
      if (isLarge || text.length <= LARGE) continue;
      await acquireSlot(signal);
      isLarge = true;
    }
    text += decoder.end();
    // A byte order mark is not JSON, but harmless.
    if (text.startsWith('\ufeff')) text = text.slice(1);
    return text.length > SMALL ? await parseInPieces(text, bounds.what) : parse(text, bounds.what);
  } finally {
    if (isLarge) releaseSlot();
  }
}

/** Maps rows, and yields to the event loop between slices of a long list. */
export async function mapInSlices<Row, To>(rows: readonly Row[], map: (row: Row) => To): Promise<To[]> {
  const mapped: To[] = [];
  for (const row of rows) {
    const turn = turns.pass();
    if (turn) await turn;
    mapped.push(map(row));
  }
  return mapped;
}
