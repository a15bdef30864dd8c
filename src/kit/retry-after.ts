import { parseDuration, parseInstant } from './duration.ts';

/** Maximum wait that a `Retry-After` header can request (ms). Longer waits are capped. */
const MAX_WAIT = 3_600_000;

const IMF_OR_RFC_850 =
  /^[A-Z][a-z]{2,8}, (\d{1,2}[ -][A-Z][a-z]{2}[ -](?:\d{2}){1,2} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4}))$/;
/** Without a zone: the time is UTC. */
const ASCTIME = /^[A-Z][a-z]{2} ([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$/;

/** Parses a date in one of the formats of HTTP, the obsolete ones included, or in ISO 8601, to ms since the Unix epoch. */
export function parseHttpDate(text: string): number | undefined {
  const [, zoned] = IMF_OR_RFC_850.exec(text) ?? [];
  const [, utc] = ASCTIME.exec(text) ?? [];
  const at = zoned === undefined && utc === undefined ? parseInstant(text) : Date.parse(zoned ?? `${utc} GMT`);
  return at === undefined || Number.isNaN(at) ? undefined : at;
}

function waitOf(text: string, now: number): number | undefined {
  if (/^(\d+(\.\d*)?|\.\d+)$/.test(text)) return Math.ceil(Number(text) * 1000);
  const at = parseHttpDate(text);
  return at === undefined ? parseDuration(text) : Math.max(0, at - now);
}

/**
 * Parses a `Retry-After` header (seconds, a duration or a date) to ms. The longest of several values counts. Returns undefined if
 * none is usable. `now`: time of the response (ms since the Unix epoch), by the server's clock if known.
 */
export function retryAfterMs(header: string | readonly string[] | undefined, now: number): number | undefined {
  // The comma within a date precedes its day.
  const values = [header ?? []].flat().flatMap(each => each.split(/,(?! *\d{1,2}[ -][A-Z])/));
  const waits = values.map(value => waitOf(value.trim(), now)).filter(wait => wait !== undefined);
  return waits.length === 0 ? undefined : Math.min(MAX_WAIT, Math.max(...waits));
}
