import { formatDuration } from '../kit/duration.ts';
import { Secret } from '../kit/secret.ts';
import { bareAddress } from '../kit/text.ts';
import { createYielder } from '../kit/yielder.ts';
import { configJsonSchema, type JsonSchema } from './json-schema.ts';
import type { Config } from './schema.ts';
import { writeYaml } from './yaml-file.ts';

/** Maximum number of items per list and of characters in total. */
const MAX_ITEMS = 100;
const MAX_CHARACTERS = 2 ** 19;

/** Keys of URLs that may contain credentials: only the origin is printed. */
const ADDRESSES: ReadonlySet<string | undefined> = new Set(['url', 'urls', 'proxy']);

/** Sections that accounts inherit: only overrides are printed. */
const INHERITED = ['upstream', 'collect', 'objectives'] as const;

type Section = Readonly<Record<string, unknown>>;

const isSection = (value: unknown): value is Section =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;

function hidden(secret: Secret, key: string | undefined): string {
  const url = ADDRESSES.has(key) ? URL.parse(secret.reveal()) : null;
  return url && /^https?:$/.test(url.protocol) ? `${url.origin}/${secret}` : String(secret);
}

/** Removes parts of a URL that may be secret. */
function withoutQuery(text: string): string {
  const url = /^\s*https?:/i.test(text) ? URL.parse(text) : null;
  return url && (url.username || url.password || url.search || url.hash) ? bareAddress(text) : text;
}

const alternativesOf = (schema: JsonSchema | undefined): readonly JsonSchema[] =>
  schema?.anyOf?.flatMap(alternativesOf) ?? (schema ? [schema] : []);

/** Converts a number to a duration or time if the schema expects text. */
function asWritten(value: number, schema: JsonSchema | undefined): number | string {
  const ways = alternativesOf(schema);
  const types = new Set(ways.flatMap(({ type = 'any' }) => type));
  types.delete('null');
  if (types.size !== 1 || !types.has('string')) return value;
  // Only durations have a pattern that ends like this.
  const isDuration = ways.some(({ pattern }) => pattern?.endsWith('(ms|s|m|h|d)$'));
  return isDuration ? formatDuration(value) : new Date(value).toISOString();
}

const camelCase = (key: string) => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

function sectionOf(section: Section, schema: JsonSchema | undefined): Section {
  const way = alternativesOf(schema).find(({ properties, propertyNames }) => properties ?? propertyNames);
  const entries = Object.entries(section).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => [
      // Limits are in snake case in metrics, and in camel case in the file.
      way?.propertyNames?.enum ? camelCase(key) : key,
      plain(value, way?.properties?.[key], key),
    ]),
  );
}

/** Returns a value as written in the configuration file, without secrets. `key`: key of the value or its list. */
function plain(value: unknown, schema: JsonSchema | undefined, key?: string): unknown {
  if (value instanceof Secret) return hidden(value, key);
  if (typeof value === 'number') return asWritten(value, schema);
  if (typeof value === 'string') return withoutQuery(value);
  if (Array.isArray(value)) {
    const items = alternativesOf(schema).find(way => way.items)?.items;
    const shown = value.slice(0, MAX_ITEMS).map(item => plain(item, items, key));
    return value.length > MAX_ITEMS ? [...shown, `(${value.length - MAX_ITEMS} more)`] : shown;
  }
  if (!isSection(value)) return value === null || typeof value !== 'object' ? value : String(value);
  if (value.literal instanceof Secret) return hidden(value.literal, key);
  const { kind, ...rest } = value;
  const choice = alternativesOf(schema).find(({ properties }) => typeof kind === 'string' && properties?.[kind]);
  // In the file, a choice is a section with its kind as the only key.
  return typeof kind === 'string' && choice ? sectionOf({ [kind]: rest }, choice) : sectionOf(value, schema);
}

function overrides(own: Section, base: Section): Section {
  return Object.fromEntries(
    Object.entries(own).flatMap(([key, value]) => {
      const inherited = base[key];
      if (value === inherited) return [];
      if (!isSection(value) || !isSection(inherited)) return [[key, value]];
      const inner = overrides(value, inherited);
      return Object.keys(inner).length > 0 ? [[key, inner]] : [];
    }),
  );
}

function asGiven(account: Config['accounts'][number], config: Config): Section {
  const own = INHERITED.map(key => [key, overrides(account[key], config[key])] as const);
  const given = own.filter(([, section]) => Object.keys(section).length > 0);
  const rest = Object.entries(account).filter(([key]) => !INHERITED.some(each => each === key));
  return Object.fromEntries([...rest, ...given]);
}

/** Returns the configuration as YAML with all defaults and without secrets. Yields to the event loop. */
export async function redactedYaml(config: Config): Promise<string> {
  const turns = createYielder();
  const schema = configJsonSchema();
  let text = '';
  for (const [key, section] of Object.entries(config)) {
    await turns.pass();
    if (key !== 'accounts') {
      text += writeYaml(sectionOf({ [key]: section }, schema));
      continue;
    }
    text += 'accounts:\n';
    const items = schema.properties?.accounts?.items;
    for (const account of config.accounts.slice(0, MAX_ITEMS)) {
      await turns.pass();
      text += writeYaml([plain(asGiven(account, config), items)]).replace(/^(?=.)/gm, '  ');
    }
    const more = config.accounts.length - MAX_ITEMS;
    if (more > 0) text += `  - (${more} more)\n`;
  }
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS).toWellFormed()}\n# truncated\n` : text;
}
