import { Agent, get } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { atThisLoad } from '../support/eventually.ts';
import { type ParsedFamily, parseExposition } from '../support/parse-exposition.ts';

/** A complete HTTP response. */
export interface Reading {
  readonly status: number;
  readonly headers: string;
  readonly text: string;
  /** Time from the request to the last byte (ms). */
  readonly ms: number;
}

export interface Scrape extends Reading {
  /** Returns the values of all series with at least these labels, padded with `undefined` to `least` entries. */
  values(name: string, labels?: Readonly<Record<string, string>>, least?: number): (number | undefined)[];
  /** Returns the first of `values`. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined;
  readonly families: readonly ParsedFamily[];
}

export interface ScrapeKind {
  readonly format: 'text' | 'openmetrics';
  readonly gzip: boolean;
}

/** Combinations of format and encoding that scrapers request. */
export const KINDS: readonly ScrapeKind[] = [
  { format: 'text', gzip: false },
  { format: 'openmetrics', gzip: true },
  { format: 'text', gzip: true },
  { format: 'openmetrics', gzip: false },
];

const ACCEPT = {
  text: 'text/plain;version=0.0.4',
  openmetrics: 'application/openmetrics-text;version=1.0.0',
} as const;

const agent = new Agent({ keepAlive: true });

/** Response timeout (ms). */
const RESPONSE_TIMEOUT_MS = atThisLoad(120_000);

/** Sends a GET request. Decompresses gzip bodies and verifies their checksum and length. */
export function read(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Reading> {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const request = get(url, { agent, headers, timeout: RESPONSE_TIMEOUT_MS }, response => {
      const chunks: Buffer[] = [];
      response.on('data', chunk => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const ms = performance.now() - start;
        try {
          const bytes = Buffer.concat(chunks);
          const text = response.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes;
          resolve({
            status: response.statusCode ?? 0,
            headers: JSON.stringify(response.rawHeaders),
            text: new TextDecoder('utf-8', { fatal: true }).decode(text),
            ms,
          });
        } catch (error) {
          reject(error);
        }
      });
    });
    request.on('timeout', () => request.destroy(new Error(`no response within ${RESPONSE_TIMEOUT_MS} ms`)));
    request.on('error', (error: NodeJS.ErrnoException) => {
      // The server may close an idle connection just before it is reused. Prometheus retries in that case, too.
      if (request.reusedSocket && error.code === 'ECONNRESET') resolve(read(url, headers));
      else reject(error);
    });
  });
}

/**
 * Scrapes /metrics of the agent at `url`. Throws if the response does not have the requested encoding or violates its format.
 */
export async function scrape(url: string, { format, gzip }: ScrapeKind): Promise<Scrape> {
  const reading = await read(`${url}/metrics`, {
    accept: ACCEPT[format],
    'accept-encoding': gzip ? 'gzip' : 'identity',
  });
  if (reading.status !== 200) throw new Error(`status ${reading.status}`);
  if (/"content-encoding","gzip"/i.test(reading.headers) !== gzip)
    throw new Error('content encoding differs from the requested one');
  const families = parseExposition(reading.text, format);
  const byName = new Map(families.map(family => [family.name, family]));
  const values: Scrape['values'] = (name, labels = {}, least = 0) => {
    const family = byName.get(name) ?? byName.get(name.replace(/_total$/, ''));
    const found: (number | undefined)[] = (family?.samples ?? [])
      .filter(
        sample =>
          sample.name === name && Object.entries(labels).every(([label, text]) => sample.labels[label] === text),
      )
      .map(({ value }) => value);
    while (found.length < least) found.push(undefined);
    return found;
  };
  return { ...reading, families, values, value: (name, labels) => values(name, labels)[0] };
}
