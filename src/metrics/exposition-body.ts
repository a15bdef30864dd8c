import { type GzipBlock, gzipBlock, inflateBlock, joinGzip } from './gzip-block.ts';

/** Short text as it is, or long text deflated. Text of the charset `latin1` is bytes, one a character. */
export type Content = string | readonly GzipBlock[];

export type Charset = 'utf8' | 'latin1';

/** One place in a body that can be rewritten by itself. `version` rises whenever the content changes. */
export interface Fragment {
  content: Content;
  version: number;
}

/** Fragments in their order, as bytes: all as they were when it began, so that no header is without its samples. */
export interface Body {
  /** Yields after each part. */
  plain(): Generator<void, Buffer, void>;
  /** Yields after each part that had to be deflated again. */
  gzip(): Generator<void, Buffer, void>;
}

/**
 * From this many characters on a fragment is deflated by itself. Shorter ones are deflated together with their neighbours:
 * a call to zlib costs some 10 µs however short the text, and one line alone shrinks by a tenth, 64 of them 15-fold.
 */
const LONG = 4096;

/** Fragments of a chunk, which is deflated again, at most 256 KiB of short texts, when one short fragment of it changes. */
const CHUNK_SIZE = 64;

interface Chunk {
  readonly fragments: readonly Fragment[];
  version: number;
  blocks: readonly GzipBlock[];
}

export function createFragment(): Fragment {
  return { content: '', version: 0 };
}

/** Items that are made text of, and characters that are deflated, at a time: some milliseconds of work. */
const [ITEMS_TOGETHER, TOGETHER] = [500, 128 * 1024];

/** Content of the items' text. Yields now and then where they are many. */
export function* contentOf<T>(
  items: readonly T[],
  toText: (items: readonly T[]) => string,
  charset: Charset,
): Generator<void, Content, void> {
  const blocks: GzipBlock[] = [];
  let text = '';
  for (let from = 0; from < items.length; from += ITEMS_TOGETHER) {
    text += toText(items.slice(from, from + ITEMS_TOGETHER));
    if (text.length < TOGETHER) continue;
    blocks.push(gzipBlock(text, charset));
    text = '';
    yield;
  }
  if (blocks.length === 0 && text.length < LONG) return text;
  return text === '' ? blocks : [...blocks, gzipBlock(text, charset)];
}

/** Of content whose charset is `latin1`, in bytes. */
export const lengthOf = (content: Content): number =>
  typeof content === 'string' ? content.length : content.reduce((sum, { length }) => sum + length, 0);

/** Puts `content` in, unless it is there already; says whether the fragment changed. Long text is not compared. */
export function fillFragment(fragment: Fragment, content: Content, version: number): boolean {
  if (content === fragment.content) return false;
  fragment.content = content;
  fragment.version = version;
  return true;
}

/** The texts of `fragments`, runs of short ones joined. */
function contents(fragments: readonly Fragment[]): (string | GzipBlock)[] {
  const joined: (string | GzipBlock)[] = [];
  let run = '';
  const endRun = () => {
    if (run !== '') joined.push(run);
    run = '';
  };
  for (const { content } of fragments) {
    if (typeof content === 'string') {
      run += content;
    } else {
      endRun();
      joined.push(...content);
    }
  }
  endRun();
  return joined;
}

export function createBody(fragments: readonly Fragment[], charset: Charset): Body {
  const chunks: Chunk[] = [];
  for (let start = 0; start < fragments.length; start += CHUNK_SIZE) {
    chunks.push({ fragments: fragments.slice(start, start + CHUNK_SIZE), version: -1, blocks: [] });
  }

  /** The chunk as it is now: its blocks, or what they are to be made of. */
  function look(chunk: Chunk) {
    const version = chunk.fragments.reduce((latest, fragment) => Math.max(latest, fragment.version), 0);
    const isKnown = chunk.version === version;
    return {
      chunk,
      version,
      blocks: isKnown ? chunk.blocks : undefined,
      parts: isKnown ? [] : contents(chunk.fragments),
    };
  }

  return {
    *plain() {
      const parts = contents(fragments);
      const lengths = parts.map(part => (typeof part === 'string' ? Buffer.byteLength(part, charset) : part.length));
      const body = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + length, 0));
      let at = 0;
      for (const part of parts) {
        at += typeof part === 'string' ? body.write(part, at, charset) : inflateBlock(part).copy(body, at);
        yield;
      }
      return body;
    },
    *gzip() {
      const seen = chunks.map(look);
      for (const one of seen) {
        if (one.blocks) continue;
        const { chunk, version, parts } = one;
        // Another may have deflated the same meanwhile.
        one.blocks =
          chunk.version === version
            ? chunk.blocks
            : parts.map(part => (typeof part === 'string' ? gzipBlock(part, charset) : part));
        if (version > chunk.version) [chunk.version, chunk.blocks] = [version, one.blocks];
        yield;
      }
      return joinGzip(seen.flatMap(({ blocks = [] }) => blocks));
    },
  };
}
