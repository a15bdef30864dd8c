import { createTurns } from '../kit/turns.ts';
import { createJsonReader, JsonFault, type JsonReader, type RowsOf } from './json-reader.ts';

/** Shorter texts are parsed at once: that takes some milliseconds, tens of them whatever they hold. */
const SHORT = 256 * 1024;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

/** Gives the bytes to the reader, and everything else a turn now and then. */
function createFeed(reader: JsonReader): (bytes: Buffer) => Promise<void> {
  const turns = createTurns();
  return async bytes => {
    for (let at = 0; at < bytes.length; ) {
      at = reader.read(bytes, at);
      await turns.pass();
    }
  };
}

/**
 * The JSON body that comes in these pieces. A short one is as JSON.parse gives it; of a long one, the elements of lists
 * become what `rowsOf` makes of them while it comes, and other work gets in between, which `own` is told of. Throws
 * JsonFault, and what `pieces` and `rowsOf` throw.
 */
export async function readJson(
  pieces: AsyncIterable<Buffer>,
  rowsOf: RowsOf = () => undefined,
  own: (task: () => Promise<void>) => Promise<void> = task => task(),
): Promise<unknown> {
  let head: Buffer[] = [];
  let size = 0;
  let reader: JsonReader | undefined;
  let feed: ((bytes: Buffer) => Promise<void>) | undefined;
  const takeHead = () => {
    const bytes = Buffer.concat(head, size);
    head = [];
    // A byte order mark is no JSON, and harmless.
    return bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)
      ? bytes.subarray(BYTE_ORDER_MARK.length)
      : bytes;
  };
  for await (const piece of pieces) {
    if (feed) {
      const next = feed;
      await own(() => next(piece));
      continue;
    }
    head.push(piece);
    size += piece.length;
    if (size <= SHORT) continue;
    reader = createJsonReader(rowsOf);
    const first = createFeed(reader);
    feed = first;
    await own(() => first(takeHead()));
  }
  if (reader) return reader.end();
  try {
    return JSON.parse(takeHead().toString('utf8'));
  } catch {
    // The parser's own message quotes the text, so it is not kept.
    throw new JsonFault('invalid', 'not JSON');
  }
}
