/** A value on a page, as attributes of its element have it: `''` where it is not known. */
export interface PageValue {
  /** Where the answer of the page's API route has it, such as `rows.0.deadLetters`. */
  readonly path: string;
  readonly value: string;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };
const unescaped = (text: string) => text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ENTITIES[name] ?? '');

/** All values of a page: `<data value="…" data-path="…">` and `<time datetime="…" data-path="…">`, as our own pages write them. */
export function pageValues(page: string): PageValue[] {
  const found = page.matchAll(/<(?:data value|time datetime)="([^"]*)" data-path="([^"]*)"/g);
  return [...found].map(([, value = '', path = '']) => ({ path: unescaped(path), value: unescaped(value) }));
}

/** What an answer has at a path: null, too, of what is in something that is null. Keys of records may have dots in them. */
export function valueAt(answer: unknown, path: string): unknown {
  for (let end = path.length; end > 0; end = path.lastIndexOf('.', end - 1)) {
    const key = path.slice(0, end);
    if (!Object.hasOwn(Object(answer), key)) continue;
    const found: unknown = Object(answer)[key];
    return end === path.length || found === null ? found : valueAt(found, path.slice(end + 1));
  }
  return undefined;
}

/** Values of a page that are not what the answer has at their path, a line each. */
export function wrongValues(page: string, answer: unknown): string[] {
  return pageValues(page).flatMap(({ path, value }) => {
    const right = valueAt(answer, path);
    if (right === undefined) return [`${path}: the answer has none, the page ${JSON.stringify(value)}`];
    const written = right === null ? '' : String(right);
    return written === value ? [] : [`${path}: the answer has ${written}, the page ${JSON.stringify(value)}`];
  });
}

const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** Paths of all numbers and times in an answer that are known. */
export function factPaths(answer: unknown, before: readonly string[] = []): string[] {
  if (typeof answer === 'number' || (typeof answer === 'string' && TIME.test(answer))) return [before.join('.')];
  if (typeof answer !== 'object' || answer === null) return [];
  return Object.entries(answer).flatMap(([key, value]) => factPaths(value, [...before, key]));
}
