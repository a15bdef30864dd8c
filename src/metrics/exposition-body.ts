import { type GzipBlock, gzipBlock, inflateBlock, joinGzip } from './gzip-block.ts';

/**
 * One place in a body that can be rewritten by itself: short text as it is, or long text deflated.
 * `version` rises whenever the content changes.
 */
export interface Fragment {
  content: string | GzipBlock;
  version: number;
}

/** Fragments in their order, as bytes. */
export interface Body {
  /** Yields after each part. */
  plain(): Generator<void, Buffer, void>;
  /** Yields after each part that had to be deflated again. What changes meanwhile may be in it or not, by parts. */
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

/** Puts `text` in, unless it is there already; says whether the fragment changed. Long text is not compared. */
export function fillFragment(fragment: Fragment, text: string, version: number): boolean {
  if (text === fragment.content) return false;
  fragment.content = text.length < LONG ? text : gzipBlock(text);
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
      joined.push(content);
    }
  }
  endRun();
  return joined;
}

export function createBody(fragments: readonly Fragment[]): Body {
  const chunks: Chunk[] = [];
  for (let start = 0; start < fragments.length; start += CHUNK_SIZE) {
    chunks.push({ fragments: fragments.slice(start, start + CHUNK_SIZE), version: -1, blocks: [] });
  }

  /** Deflates what changed; says whether anything did. */
  function refresh(chunk: Chunk): boolean {
    const version = chunk.fragments.reduce((latest, fragment) => Math.max(latest, fragment.version), 0);
    if (chunk.version === version) return false;
    chunk.blocks = contents(chunk.fragments).map(part => (typeof part === 'string' ? gzipBlock(part) : part));
    chunk.version = version;
    return true;
  }

  return {
    *plain() {
      const parts: Buffer[] = [];
      for (const part of contents(fragments)) {
        parts.push(typeof part === 'string' ? Buffer.from(part) : inflateBlock(part));
        yield;
      }
      return Buffer.concat(parts);
    },
    *gzip() {
      for (const chunk of chunks) if (refresh(chunk)) yield;
      return joinGzip(chunks.flatMap(({ blocks }) => blocks));
    },
  };
}
