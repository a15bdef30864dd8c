import { pipeline } from 'node:stream/promises';
import { StringDecoder } from 'node:string_decoder';
import { createGunzip } from 'node:zlib';
import { createTurns, type Turns } from '../kit/turns.ts';
import { UpstreamError } from './errors.ts';
import { createJsonReader, JsonFault, type JsonReader, type RowsOf } from './json-reader.ts';
import { LARGE } from './large-bodies.ts';

/** How much of one answer is read. */
export interface BodyBounds {
  /** The request, for messages. */
  readonly what: string;
  /** Bytes at most, packed and unpacked. */
  readonly largest: number;
  /** Waited for before more than `LARGE` bytes are read. */
  mayBeLarge(): Promise<void>;
  /** In which a long body is parsed. */
  readonly parsing: Turns;
}

function tooLarge(what: string, largest: number, cause?: unknown): UpstreamError {
  return new UpstreamError('invalid_response', `${what}: answer above ${largest} bytes`, { cause, tooLarge: true });
}

/** The pieces of a body as they come, up to `largest` bytes; `onBytes` is called for each. */
export async function* bounded(
  pieces: AsyncIterable<Buffer>,
  { what, largest, mayBeLarge }: BodyBounds,
  onBytes: (bytes: number) => void = () => undefined,
): AsyncGenerator<Buffer, void, void> {
  let size = 0;
  for await (const piece of pieces) {
    onBytes(piece.length);
    size += piece.length;
    if (size > largest) throw tooLarge(what, largest);
    if (size > LARGE) await mayBeLarge();
    yield piece;
  }
}

/** Each piece costs a turn of the event loop, which in a busy process comes late. */
const UNPACKED_AT_A_TIME = 128 * 1024;

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

function decoded(packed: AsyncIterable<Buffer>, encoding: string, bounds: BodyBounds): AsyncIterable<Buffer> {
  if (encoding === 'identity') return packed;
  if (encoding === 'gzip' || encoding === 'x-gzip') return bounded(unpacked(packed, bounds.what), bounds);
  throw new UpstreamError('invalid_response', `${bounds.what}: unexpected content encoding`);
}

/** The JSON value of a body that was sent with this Content-Encoding; see `readJson`. Throws UpstreamError. */
export async function readBody(
  packed: AsyncIterable<Buffer>,
  encoding: string,
  bounds: BodyBounds,
  rowsOf: RowsOf | undefined,
  own: Own,
): Promise<unknown> {
  try {
    return await readJson(decoded(packed, encoding.toLowerCase(), bounds), rowsOf, own, bounds.parsing);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    if (error.kind === 'many') throw tooLarge(`${bounds.what}: ${error.message}`, bounds.largest);
    throw new UpstreamError('invalid_response', `${bounds.what}: not JSON`);
  }
}

/** Runs work of this process itself, which takes none of the time that the service has. */
type Own = (task: () => Promise<void>) => Promise<void>;

/** Shorter texts are parsed at once: that takes some milliseconds, tens of them whatever they hold. */
const SHORT = 256 * 1024;
/**
 * Bytes that one text is made of. Hundreds of accounts may wait for their turns to be parsed, and a text with one character that is
 * not Latin takes twice as much. Bytes would take no more, but the allocator keeps what they leave.
 */
const DECODED_AT_A_TIME = UNPACKED_AT_A_TIME;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/** Gives the text of bytes that go on where the ones before ended, and without any what is left of those. */
function createDecoder(): (bytes?: Buffer) => string {
  const decoder = new StringDecoder();
  let isWithin = false;
  return bytes => {
    if (!bytes) return decoder.end();
    // No character ends beyond an ASCII one. Where none was begun before, either, there is nothing to remember, which costs.
    const isWhole = (bytes.at(-1) ?? 0x80) < 0x80;
    if (isWhole && !isWithin) return bytes.toString('utf8');
    isWithin = !isWhole;
    return decoder.write(bytes);
  };
}

/**
 * The JSON body that comes in these pieces. A short one is as JSON.parse gives it; of a long one, the elements of lists
 * become what `rowsOf` makes of them while it comes, and other work gets in between, which `own` is notified of. Throws
 * JsonFault, and what `pieces` and `rowsOf` throw.
 */
export async function readJson(
  pieces: AsyncIterable<Buffer>,
  rowsOf: RowsOf = () => undefined,
  own: Own = task => task(),
  turns = createTurns(),
): Promise<unknown> {
  let head: Buffer[] = [];
  let size = 0;
  let reader: JsonReader | undefined;
  const takeHead = () => {
    const bytes = Buffer.concat(head, size);
    head = [];
    // A byte order mark is no JSON, and harmless.
    const mark = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
    return bytes.subarray(mark);
  };
  const textOf = createDecoder();
  const textsOf = (bytes: Buffer) =>
    Array.from({ length: Math.ceil(bytes.length / DECODED_AT_A_TIME) }, (_, index) =>
      textOf(bytes.subarray(index * DECODED_AT_A_TIME, (index + 1) * DECODED_AT_A_TIME)),
    );
  /** Leaves no text in the list: each is garbage once it is read. */
  const feed = async (reading: JsonReader, texts: string[]) => {
    for (let text = texts.shift(); text !== undefined; text = texts.shift()) {
      for (let at = 0; at < text.length; ) {
        await turns.pass();
        at = reading.read(text, at);
      }
    }
  };
  for await (const piece of pieces) {
    let bytes = piece;
    if (!reader) {
      head.push(piece);
      size += piece.length;
      if (size <= SHORT) continue;
      bytes = takeHead();
      reader = createJsonReader(rowsOf);
    }
    const [reading, texts] = [reader, textsOf(bytes)];
    await own(() => feed(reading, texts));
  }
  if (reader) {
    await feed(reader, [textOf()]);
    return reader.end();
  }
  try {
    return JSON.parse(takeHead().toString('utf8'));
  } catch {
    // The parser's own message quotes the text, so it is not kept.
    throw new JsonFault('invalid', 'not JSON');
  }
}
