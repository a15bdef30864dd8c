import { type GzipBlock, gzipBlock, inflateBlock, joinGzip } from './gzip-block.ts';

/**
 * One place in a body that can be written anew by itself: short text as it is, or long text deflated.
 * `version` rises whenever the content changes.
 */
export interface Slot {
  content: string | GzipBlock;
  version: number;
}

/** Slots in their order, as bytes. */
export interface Body {
  plain(): Buffer;
  /** Yields after each part that had to be deflated again. What changes meanwhile may be in it or not, by parts. */
  gzip(): Generator<void, Buffer, void>;
}

/**
 * From this many characters on a slot is deflated by itself. Shorter ones are deflated together with their neighbours:
 * a call to zlib costs some 10 µs however short the text, and one line alone shrinks by a tenth, 64 of them 15-fold.
 */
const LONG = 4096;

/** Slots on a shelf: what is deflated again, at most 256 KiB of short texts, when one short slot of it changes. */
const SHELF = 64;

interface Shelf {
  readonly slots: readonly Slot[];
  version: number;
  blocks: readonly GzipBlock[];
}

export function createSlot(): Slot {
  return { content: '', version: 0 };
}

/** Puts `text` in, unless it is there already; says whether the slot changed. Long text is not compared. */
export function fillSlot(slot: Slot, text: string, version: number): boolean {
  if (text === slot.content) return false;
  slot.content = text.length < LONG ? text : gzipBlock(text);
  slot.version = version;
  return true;
}

/** The texts of `slots`, runs of short ones joined. */
function contents(slots: readonly Slot[]): (string | GzipBlock)[] {
  const joined: (string | GzipBlock)[] = [];
  let run = '';
  const endRun = () => {
    if (run !== '') joined.push(run);
    run = '';
  };
  for (const { content } of slots) {
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

export function createBody(slots: readonly Slot[]): Body {
  const shelves: Shelf[] = [];
  for (let start = 0; start < slots.length; start += SHELF) {
    shelves.push({ slots: slots.slice(start, start + SHELF), version: -1, blocks: [] });
  }

  /** Deflates what changed; says whether anything did. */
  function freshen(shelf: Shelf): boolean {
    const version = shelf.slots.reduce((latest, slot) => Math.max(latest, slot.version), 0);
    if (shelf.version === version) return false;
    shelf.blocks = contents(shelf.slots).map(part => (typeof part === 'string' ? gzipBlock(part) : part));
    shelf.version = version;
    return true;
  }

  return {
    plain: () =>
      Buffer.concat(contents(slots).map(part => (typeof part === 'string' ? Buffer.from(part) : inflateBlock(part)))),
    *gzip() {
      for (const shelf of shelves) if (freshen(shelf)) yield;
      return joinGzip(shelves.flatMap(({ blocks }) => blocks));
    },
  };
}
