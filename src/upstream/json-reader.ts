/** Rows that were made while an answer was read: nothing is left of what they were made from. */
export class Rows extends Array<unknown> {
  static override get [Symbol.species]() {
    return Array;
  }
}

/** Makes rows from one element of a list and puts each; what can't be read is put as undefined. */
export type ToRows = (element: unknown, put: (row: unknown) => void) => void;

/**
 * What becomes of the elements of a list, by the name that the list has in the answer; undefined: the answer is the list.
 * Lists for which this gives undefined are checked and left empty.
 */
export type RowsOf = (list: string | undefined) => ToRows | undefined;

/** Why an answer is not read. `many`: valid, perhaps, but of more or larger parts than are read. */
export class JsonFault extends Error {
  readonly kind: 'invalid' | 'many';
  constructor(kind: JsonFault['kind'], message: string) {
    super(message);
    this.kind = kind;
  }
}

/**
 * Reads JSON text as it comes. The elements of the answer's lists (the answer itself, or members of it) are parsed some at
 * a time and forgotten, so that neither the text nor what it says is ever there whole. Throws JsonFault.
 */
export interface JsonReader {
  /** Reads on from a place in a piece of the text, at most to the end of some elements; gives the place where it stopped. */
  read(piece: string, from: number): number;
  /** The text is over: the same as JSON.parse gives, but for the elements of lists. */
  end(): unknown;
}

/** Elements are parsed in batches up to this length and this count: some milliseconds of work. */
const LENGTH_TOGETHER = 64 * 1024;
const ELEMENTS_TOGETHER = 500;
/** Between two objects, as most services write it. Within a text, the quote would have a backslash before it. */
const BETWEEN = '},{"';
/** Length in which it is looked for: most lists of that length have fewer than `ELEMENTS_TOGETHER`. */
const LENGTH_AT_SIGHT = 16 * 1024;
/** Times that it may be looked for in vain, where it was not found twice as often: of thousands of little lists each would cost as much. */
const MOST_MISSES = 20;
/** Length of one element, or of one other member: it has to be there whole. */
const LARGEST_PART = 32 * 1024 * 1024;
/** Values in one element, or in all that is in no list: a row has a hundred, and a name costs far more than its bytes. */
const MOST_VALUES_OF_A_PART = 50_000;
/** Elements of all lists: a list of a million keys has a million. */
const MOST_ELEMENTS = 2_000_000;
const DEEPEST = 200;

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Whether an odd number of backslashes stands before `end`, the text's first at `from` at the earliest. */
function isEscaped(piece: string, from: number, end: number): boolean {
  let first = end;
  while (first > from && piece.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (end - first) % 2 === 1;
}

/** Where the quote is that ends a text; -1 when it is in none of the piece. To search costs less than to look at each character. */
function quoteAfter(piece: string, from: number): number {
  let quote = piece.indexOf('"', from);
  while (quote !== -1 && isEscaped(piece, from, quote)) quote = piece.indexOf('"', quote + 1);
  return quote;
}

/** Where the first character is that is no blank; -1 when there is none. */
function notBlankAfter(piece: string, from: number): number {
  const notBlank = /[^ \n\r\t]/g;
  notBlank.lastIndex = from;
  return notBlank.test(piece) ? notBlank.lastIndex - 1 : -1;
}

const isBlank = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
const invalid = () => new JsonFault('invalid', 'not JSON');
const tooMany = () => new JsonFault('many', 'too many values');

/** The parser's own message quotes the text, so it is not kept. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid();
  }
}

/** The elements that a list of this text has; undefined when it is none. */
function listOf(text: string): readonly unknown[] | undefined {
  try {
    return JSON.parse(`[${text}]`);
  } catch {
    return undefined;
  }
}

/** Where the reader is: before the answer, within a scalar, a list, an object, behind a member that is a list, behind the answer. */
type Place = 'start' | 'scalar' | 'list' | 'object' | 'behind list' | 'end';

export function createJsonReader(rowsOf: RowsOf): JsonReader {
  let place: Place = 'start';
  let answer: unknown;
  /** The object that is the answer, if it is one. */
  let members: Record<string, unknown> | undefined;
  /** Name of the list that is read, and what becomes of it. */
  let list: { readonly name: string | undefined; readonly rows: Rows; readonly toRows: ToRows | undefined };

  /** The part that is under way, from before the piece that is read now. */
  let begun = '';
  /** How deep in the part, and whether in a text, of which so many characters of the next piece are escaped. */
  let [depth, isText, escaped] = [0, false, 0];
  /** Values in the element that is under way, or in all other members. */
  let [values, otherValues, elements] = [0, 0, 0];
  let waiting = 0;
  let [isAfterComma, isAfterColon] = [false, false];
  /** Whether the list so far was what it seemed at first sight. */
  let isPlain = false;
  /** Lists that were not, and ends of pieces, less two for each time that elements were read at sight. */
  let misses = 0;

  function takeText(piece: string, from: number, to: number): string {
    const text = begun + piece.slice(from, to);
    begun = '';
    return text;
  }

  const put = (row: unknown) => void list.rows.push(row);

  function takeRows(taken: readonly unknown[]): void {
    if (list.toRows) for (const element of taken) list.toRows(element, put);
  }

  function takeElements(text: string, isLast: boolean): void {
    const taken = listOf(text);
    // Nothing between two commas, or behind the last one.
    if (!taken || (taken.length === 0 && (!isLast || isAfterComma))) throw invalid();
    takeRows(taken);
    waiting = 0;
  }

  function setMember(name: string, value: unknown): void {
    // As JSON.parse does: `__proto__` is a name like any other.
    Object.defineProperty(members, name, { value, enumerable: true, configurable: true, writable: true });
  }

  function takeMember(text: string, isLast: boolean): void {
    const entries = Object.entries(parse(`{${text}}`) as object);
    if (entries.length === 0 && (!isLast || isAfterComma)) throw invalid();
    for (const [name, value] of entries) setMember(name, value);
  }

  function beginList(name: string | undefined): void {
    list = { name, rows: new Rows(), toRows: rowsOf(name) };
    [place, isAfterComma, isAfterColon, values, isPlain] = ['list', false, false, 0, misses < MOST_MISSES];
  }

  function endList(): void {
    if (list.name === undefined) [answer, place] = [list.rows, 'end'];
    else {
      setMember(list.name, list.rows);
      place = 'behind list';
    }
  }

  /** Begins the answer, or goes on behind a part of it. */
  function step(code: number): Place {
    if (place === 'start') {
      if (code === OPEN_LIST) beginList(undefined);
      else if (code === OPEN_OBJECT) {
        answer = members = {};
        place = 'object';
      } else place = 'scalar';
    } else if (place === 'behind list' && code === COMMA) [place, isAfterComma, isAfterColon] = ['object', true, false];
    else if (place === 'behind list' && code === CLOSE_OBJECT) place = 'end';
    else throw invalid();
    return place;
  }

  /** Reads a part up to the character that ends it or some elements; gives its place, or the piece's length. */
  function scan(piece: string, from: number): number {
    const isList = place === 'list';
    let [at, deep, inText, count] = [from, depth, isText, isList ? values : otherValues];
    scanning: for (; at < piece.length; at += 1) {
      if (inText) {
        const begin = at + escaped;
        escaped = 0;
        at = quoteAfter(piece, begin);
        if (at === -1) {
          escaped = isEscaped(piece, begin, piece.length) ? 1 : 0;
          at = piece.length;
          break;
        }
        inText = false;
        continue;
      }
      const code = piece.charCodeAt(at);
      switch (code) {
        case QUOTE:
          inText = true;
          isAfterColon = false;
          break;
        case COMMA:
          count += 1;
          if (deep > 0) break;
          if (!isList) break scanning;
          elements += 1;
          waiting += 1;
          count = 0;
          isAfterComma = true;
          if (waiting >= ELEMENTS_TOGETHER || begun.length + at - from >= LENGTH_TOGETHER) break scanning;
          // What comes behind an element that was cut may be read at sight again.
          if (isPlain && begun !== '') break scanning;
          break;
        case COLON:
          if (deep === 0 && !isList) isAfterColon = true;
          break;
        case OPEN_LIST:
          if (isAfterColon) break scanning;
          deep += 1;
          count += 1;
          break;
        case OPEN_OBJECT:
          isAfterColon = false;
          deep += 1;
          count += 1;
          break;
        case CLOSE_LIST:
        case CLOSE_OBJECT:
          if (deep === 0) break scanning;
          deep -= 1;
          break;
        default:
          if (isAfterColon && !isBlank(code)) isAfterColon = false;
      }
      if (deep > DEEPEST || count > MOST_VALUES_OF_A_PART || elements > MOST_ELEMENTS) {
        throw tooMany();
      }
    }
    [depth, isText] = [deep, inText];
    if (isList) values = count;
    else otherValues = count;
    return at;
  }

  function keep(piece: string, from: number): void {
    begun += piece.slice(from);
    if (begun.length > LARGEST_PART) throw new JsonFault('many', 'too large a part');
  }

  /**
   * Elements up to where two seem to part, without a look at each character: what the parser takes from the begin of one are
   * whole elements, or it would miss a bracket or a quote. How deep they are is not looked at: so short a text takes little even of
   * brackets alone. Gives the place behind their comma; undefined where that fails.
   */
  function readAtSight(piece: string, from: number): number | undefined {
    const seen = piece.slice(from, from + LENGTH_AT_SIGHT);
    const length = seen.lastIndexOf(BETWEEN) + 1;
    const taken = length > 0 ? listOf(seen.slice(0, length)) : undefined;
    if (!taken || taken.length > ELEMENTS_TOGETHER) {
      misses += 1;
      // The next piece may begin with what parts them.
      isPlain = length === 0 && seen.length < LENGTH_AT_SIGHT && misses < MOST_MISSES;
      return undefined;
    }
    misses = Math.max(0, misses - 2);
    elements += taken.length;
    if (elements > MOST_ELEMENTS) throw tooMany();
    takeRows(taken);
    isAfterComma = true;
    return from + length + 1;
  }

  function readList(piece: string, from: number): number {
    const behind = isPlain && begun === '' ? readAtSight(piece, from) : undefined;
    if (behind !== undefined) return behind;
    const at = scan(piece, from);
    if (at === piece.length) {
      keep(piece, from);
      return at;
    }
    const code = piece.charCodeAt(at);
    if (code === CLOSE_OBJECT) throw invalid();
    takeElements(takeText(piece, from, at), code === CLOSE_LIST);
    if (code === CLOSE_LIST) endList();
    return at + 1;
  }

  function readMember(piece: string, from: number): number {
    const at = scan(piece, from);
    if (at === piece.length) {
      keep(piece, from);
      return at;
    }
    const code = piece.charCodeAt(at);
    if (code === CLOSE_LIST) throw invalid();
    const text = takeText(piece, from, at);
    if (code === OPEN_LIST) {
      const [name, ...more] = Object.keys(parse(`{${text}null}`) as object);
      if (name === undefined || more.length > 0) throw invalid();
      beginList(name);
      return at + 1;
    }
    takeMember(text, code === CLOSE_OBJECT);
    [isAfterComma, isAfterColon] = [true, false];
    if (code === CLOSE_OBJECT) place = 'end';
    return at + 1;
  }

  return {
    read(piece, from) {
      let at = from;
      if (place === 'list') return readList(piece, at);
      if (place === 'object') return readMember(piece, at);
      if (place === 'scalar') {
        keep(piece, at);
        return piece.length;
      }
      for (; at < piece.length; at += 1) {
        at = notBlankAfter(piece, at);
        if (at === -1) break;
        const now = step(piece.charCodeAt(at));
        if (now === 'scalar') return at;
        if (now === 'list' || now === 'object') return at + 1;
      }
      return piece.length;
    },
    end() {
      if (place === 'scalar') return parse(takeText('', 0, 0));
      if (place !== 'end') throw invalid();
      return answer;
    },
  };
}
