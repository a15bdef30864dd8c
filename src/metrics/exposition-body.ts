import { type GzipBlock, gzipBlock, inflateBlock, joinGzip } from './gzip-block.ts';

/** Short plain text, or deflated long text. */
export type Content = string | readonly GzipBlock[];

export type Charset = 'utf8';

/** A part of a body that can be replaced separately. `version` increases whenever the content changes. */
export interface Fragment {
  content: Content;
  version: number;
}

/**
 * Renders fragments in order, with the content that they have at the first step: otherwise, a header could lack its samples.
 * Unchanged chunks are not rendered again. Yields after each rendered part.
 */
export type Body = ReturnType<typeof createBody>;

/**
 * Fragments of at least this length (characters) are deflated separately, shorter ones with their neighbours: a call to zlib takes
 * about 10 µs, and shrinks a single line by a tenth but 64 lines by a factor of 15.
 */
const LONG = 4096;

/** Fragments per chunk. If a short fragment changes, all short texts of its chunk are deflated again: at most 256 KiB. */
const CHUNK_SIZE = 64;

export function createFragment(): Fragment {
  return { content: '', version: 0 };
}

/** Maximum items converted to text, and characters deflated, between two yields. Each takes a few milliseconds. */
const [ITEMS_TOGETHER, TOGETHER] = [500, 128 * 1024];

/** Converts items to content. Yields after each deflated block. */
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

/** Replaces the content of a fragment and returns whether it changed. Long text always counts as changed. */
export function fillFragment(fragment: Fragment, content: Content, version: number): boolean {
  if (content === fragment.content) return false;
  fragment.content = content;
  fragment.version = version;
  return true;
}

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

export function createBody(fragments: readonly Fragment[], charset: Charset) {
  const chunks: (readonly Fragment[])[] = [];
  for (let start = 0; start < fragments.length; start += CHUNK_SIZE) {
    chunks.push(fragments.slice(start, start + CHUNK_SIZE));
  }

  /** Creates a renderer that caches the newest results of each chunk. */
  function createRenderer<T>(toResult: (part: string | GzipBlock) => T) {
    const newest: { version: number; results: readonly T[] }[] = [];
    return function* (): Generator<void, readonly T[], void> {
      const seen = chunks.map((chunk, index) => {
        const version = chunk.reduce((latest, fragment) => Math.max(latest, fragment.version), 0);
        const kept = newest[index];
        return kept?.version === version ? kept : { version, parts: contents(chunk) };
      });
      const all: T[] = [];
      for (const [index, one] of seen.entries()) {
        if ('results' in one) {
          all.push(...one.results);
          continue;
        }
        const results: T[] = [];
        for (const part of one.parts) {
          results.push(toResult(part));
          yield;
        }
        all.push(...results);
        // A concurrent call may have rendered a newer version since the first step.
        if (one.version >= (newest[index]?.version ?? 0)) newest[index] = { version: one.version, results };
      }
      return all;
    };
  }

  const plain = createRenderer(part => (typeof part === 'string' ? Buffer.from(part, charset) : inflateBlock(part)));
  const blocks = createRenderer(part => (typeof part === 'string' ? gzipBlock(part, charset) : part));
  return {
    *plain(): Generator<void, Buffer, void> {
      return Buffer.concat(yield* plain());
    },
    *gzip(): Generator<void, Buffer, void> {
      return joinGzip(yield* blocks());
    },
  };
}
