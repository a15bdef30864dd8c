import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { createYielder, type Yielder } from '../kit/yielder.ts';
import type { Format, Scope } from '../model/exposition.ts';
import { type Family, formatValue, type Sample, type Source } from './family.ts';

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' };
const escapeOne = (character: string) => ESCAPES[character] as string;

/** Escapes a label value. Keeps control characters such as NUL, which Prometheus's parsers accept since 2.0 in both formats. */
export function escapeLabelValue(value: string): string {
  return /[\\"\n]/.test(value) ? value.replace(/[\\"\n]/g, escapeOne) : value;
}

/** Returns the name in HELP, TYPE and UNIT lines: OpenMetrics removes the suffix of counters and infos. */
function familyName({ name, type }: Family, format: Format): string {
  const isBare = format === 'openmetrics' && (type === 'counter' || type === 'info');
  return isBare ? name.replace(/_(total|info)$/, '') : name;
}

function renderHeader(family: Family, format: Format): string {
  const name = familyName(family, format);
  const type = format === 'text' && family.type === 'info' ? 'gauge' : family.type;
  const special = format === 'text' ? /[\\\n]/g : /[\\\n"]/g;
  const help = `# HELP ${name} ${family.help.replace(special, escapeOne)}\n# TYPE ${name} ${type}\n`;
  const unit = /_(seconds|bytes)$/.exec(familyName(family, 'openmetrics'))?.[1];
  return unit !== undefined && format === 'openmetrics' ? `${help}# UNIT ${name} ${unit}\n` : help;
}

/** Returns a function that formats samples as lines, the same in both formats. It skips repeated series, which both forbid. */
function createLines(family: Family, account: string | undefined) {
  const lead = account === undefined ? '' : `account="${escapeLabelValue(account)}"`;
  const bucketLabels = [...family.labels, 'le'];
  const seen = new Set<string>();
  return (samples: readonly Sample[]): string => {
    const lines: string[] = [];
    for (const { labels, suffix = '', value } of samples) {
      const named: Readonly<Record<string, string | undefined>> = labels;
      let pairs = lead;
      for (const name of suffix === '_bucket' ? bucketLabels : family.labels) {
        const text = named[name];
        if (text !== undefined) pairs += `${pairs === '' ? '' : ','}${name}="${escapeLabelValue(text)}"`;
      }
      const series = pairs === '' ? suffix : `${suffix}{${pairs}}`;
      if (seen.has(series)) continue;
      seen.add(series);
      lines.push(`${family.name}${series} ${formatValue(value)}\n`);
    }
    return lines.join('');
  };
}

/** Last line of each format. */
const END: Readonly<Record<Format, string>> = { text: '', openmetrics: '# EOF\n' };

/** Content types of version 1.0.0 must name an escaping. Our names need none, so any escaping is valid. */
export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores',
};

/** Maximum duration of a slice of rendering (ms). */
const MAX_SLICE = 20;

/** Number of samples rendered between two checks of the slice's duration, in about half a millisecond. */
const PIECE = 500;

const gzipInThreadPool = promisify(gzip);

/** Level 1 takes a third of level 6's time for 3 % more bytes, because neighbouring lines of an exposition differ little. */
const GZIP_OPTIONS = { level: 1 };

interface RenderOptions {
  readonly scope: Scope;
  readonly format: Format;
  readonly gzip: boolean;
}

/** Sample lines of one source by family name, in pieces. Families without samples are missing. */
type Fragments = ReadonlyMap<string, readonly string[]>;

type RenderedSource = ReturnType<typeof createRenderedSource>;

type OnError = (source: Source, error: unknown) => void;

async function linesOf(family: Family, account: string | undefined, samples: readonly Sample[], turns: Yielder) {
  const toText = createLines(family, account);
  const pieces: string[] = [];
  for (let from = 0; from < samples.length; from += PIECE) {
    pieces.push(toText(samples.slice(from, from + PIECE)));
    const pause = turns.pass();
    if (pause) await pause;
  }
  return pieces;
}

async function fragmentsOf(source: Source, turns: Yielder): Promise<Fragments> {
  const names = new Set(source.families.map(({ name }) => name));
  const all = source.samples();
  for (const name of all.keys()) {
    if (!names.has(name)) throw new Error(`samples of ${name}, which their source does not list`);
  }
  const fragments = new Map<string, readonly string[]>();
  for (const family of source.families) {
    const samples = all.get(family.name) ?? [];
    if (samples.length > 0) fragments.set(family.name, await linesOf(family, source.account, samples, turns));
  }
  return fragments;
}

function createRenderedSource(source: Source, turns: Yielder, onError: OnError) {
  let fragments: Fragments = new Map();
  let shown: unknown = Symbol('not read');
  let last = Promise.resolve();

  async function updateNow(): Promise<void> {
    const revision = source.revision();
    if (revision === shown) return;
    let next: Fragments = new Map();
    try {
      next = await fragmentsOf(source, turns);
    } catch (error) {
      onError(source, error);
    }
    [fragments, shown] = [next, revision];
  }

  return {
    source,
    /** Returns the fragments of the latest complete update. */
    fragments: () => fragments,
    /** Renders the source if its revision has changed. Rethrows errors of `onError`; the next call then reads the source again. */
    update() {
      // Sequential, so that an older read never replaces a newer one.
      last = last.then(updateNow, updateNow);
      return last;
    },
  };
}

/** Concatenates families in order, each with its header and the fragments of all sources. */
function join(families: readonly Family[], sources: readonly RenderedSource[], format: Format): Buffer {
  const lines = new Map<string, string[]>();
  for (const source of sources) {
    for (const [name, fragment] of source.fragments()) {
      const known = lines.get(name) ?? [];
      lines.set(name, known);
      for (const piece of fragment) known.push(piece);
    }
  }
  const texts = families.flatMap(family => {
    const own = lines.get(family.name);
    return own ? [renderHeader(family, format), ...own] : [];
  });
  texts.push(END[format]);
  // Written one by one: a joined string would be copied twice and, with a single character above U+00FF, take twice the memory.
  const body = Buffer.allocUnsafe(texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0));
  let at = 0;
  for (const text of texts) at += body.write(text, at);
  return body;
}

/**
 * Creates an exposition of `sources`. Families of the same name must be equal. Errors of a source are passed to `onError`; the
 * source is then omitted until its revision changes. Omits accounts that `isShown` rejects at the time of a call.
 */
export function createExposition(
  sources: readonly Source[],
  onError: OnError = (_source, error) => {
    throw error;
  },
  isShown: (account: string) => boolean = () => true,
) {
  const turns = createYielder(MAX_SLICE);
  let used: readonly Source[] = [];
  let families: readonly Family[] = [];
  let everything: readonly RenderedSource[] = [];
  let byAccount: ReadonlyMap<string | undefined, readonly RenderedSource[]> = new Map();

  function inScope(scope: Scope): readonly RenderedSource[] {
    if (scope === 'everything') return everything;
    return byAccount.get(scope === 'agent' ? undefined : scope.account) ?? [];
  }

  /** Replaces the sources, and keeps the rendered text of unchanged ones. */
  function use(next: readonly Source[]): void {
    if (next === used) return;
    families = [...new Map(next.flatMap(source => source.families).map(family => [family.name, family])).values()];
    const known = new Map(everything.map(rendered => [rendered.source, rendered]));
    used = next;
    everything = next.map(source => known.get(source) ?? createRenderedSource(source, turns, onError));
    byAccount = Map.groupBy(everything, ({ source }) => source.account);
  }

  use(sources);
  return {
    use,
    /**
     * Returns the complete exposition of `scope`; empty for an unknown account. Renders changed sources in slices, and yields to
     * the event loop in between. If samples change during the rendering, some families may be older than others. Rethrows errors
     * of `onError`.
     */
    async render({ scope, format, gzip: isGzip }: RenderOptions): Promise<Buffer> {
      const listed = families;
      const chosen = inScope(scope).filter(({ source: { account } }) => account === undefined || isShown(account));
      for (const source of chosen) await source.update();
      // Join without yielding: otherwise, a header could lack its samples.
      const body = join(listed, chosen, format);
      return isGzip ? gzipInThreadPool(body, GZIP_OPTIONS) : body;
    },
  };
}
