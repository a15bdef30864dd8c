/** Returns the machine-readable values in the main part of a page: `<data value="…">` and `<time datetime="…">`; `''` if unknown. */
export function pageValues(page: string): string[] {
  const main = page.split('<main').at(-1) ?? '';
  return [...main.matchAll(/<(?:data value|time datetime)="([^"]*)"/g)].map(([, value = '']) => value);
}

const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
const isTime = (value: unknown) => typeof value === 'string' && TIME.test(value);

/** Returns the known numbers and times of an API response, by path. */
export function factsOf(response: unknown, before: readonly string[] = []): Map<string, string> {
  if (typeof response === 'number' || isTime(response)) return new Map([[before.join('.'), String(response)]]);
  if (typeof response !== 'object' || response === null) return new Map();
  return new Map(Object.entries(response).flatMap(([key, value]) => [...factsOf(value, [...before, key])]));
}

/** Returns the values on a page that the response does not contain. */
export function foreignValues(page: string, response: unknown): string[] {
  const known = new Set(['', ...factsOf(response).values()]);
  return pageValues(page).filter(value => !known.has(value));
}

/** Returns paths of times and non-zero numbers that a page does not show. Exact only for a response returned by `distinct`. */
export function unshownFacts(page: string, response: unknown): string[] {
  const shown = new Set(pageValues(page));
  return [...factsOf(response)].flatMap(([path, value]) => (value === '0' || shown.has(value) ? [] : [path]));
}

/** Returns a copy of the response with slightly changed times and non-zero numbers, so that no two are equal. */
export function distinct<T>(response: T): T {
  let step = 0;
  const next = (value: unknown): unknown => {
    if (isTime(value)) return new Date(Date.parse(value as string) + ++step).toISOString();
    if (typeof value === 'number') return value === 0 ? 0 : value + ++step / 100_000;
    if (Array.isArray(value)) return value.map(next);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, next(each)]));
  };
  return next(response) as T;
}
