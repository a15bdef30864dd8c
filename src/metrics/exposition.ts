import { createYielder } from '../kit/yielder.ts';
import type { Format, Scope } from '../model/exposition.ts';
import {
  type Body,
  type Content,
  contentOf,
  createBody,
  createFragment,
  type Fragment,
  fillFragment,
} from './exposition-body.ts';
import { checkFamilies } from './exposition-check.ts';
import type { Encoding } from './exposition-encoding.ts';
import { LINES } from './exposition-text.ts';
import type { Sample, Source } from './family.ts';

/** Content types of version 1.0.0 must name an escaping. Our names need none, so any escaping is valid. */
export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores',
};

/** Maximum duration of a slice of rendering (ms). */
const MAX_SLICE = 20;

interface RenderOptions {
  readonly scope: Scope;
  readonly format: Format;
  readonly gzip: boolean;
}

interface Shown {
  readonly source: Source;
  readonly fragments: ReadonlyMap<string, Fragment>;
  /** OpenMetrics variants of families that may have exemplars; other families are the same as in the text format. */
  readonly exemplified: ReadonlyMap<string, Fragment>;
  isRead: boolean;
  revision: unknown;
  /** Sequence numbers of the latest read, and of the read that is shown. Reads may finish out of order. */
  times: number;
  shownTime: number;
  version: number;
}

/** A scope in one format: for each family a header and a fragment per source. */
interface View {
  readonly shown: readonly Shown[];
  readonly groups: readonly {
    readonly header: Fragment;
    readonly bare: string;
    readonly samples: readonly Fragment[];
  }[];
  readonly body: Body;
  version: number;
}

/**
 * Creates an exposition of `sources`. Throws if their families conflict. Later errors of a source are passed to `onError`; the
 * source is then omitted until its revision changes. Omits accounts that `isShown` rejects at the time of a call.
 */
export function createExposition(
  sources: readonly Source[],
  onError = (_source: Source, error: unknown): void => {
    throw error;
  },
  isShown: IsShown = () => true,
) {
  const { use, work } = createRendering(LINES, onError, isShown);
  use(sources);
  return {
    /** Replaces the sources, and keeps the rendered text of unchanged ones. Throws like `createExposition`. */
    use,
    /**
     * Returns the complete exposition of `scope`; empty for an unknown account. Rethrows errors of `onError`; the next call then
     * reads the source again.
     */
    render(options: RenderOptions): Buffer {
      const steps = work(options);
      for (;;) {
        const { done, value } = steps.next();
        if (done) return value;
      }
    },
    /** Like `render`, but yields to the event loop between slices. If samples change meanwhile, some families may be older. */
    async renderInSlices(options: RenderOptions): Promise<Buffer> {
      const steps = work(options);
      const turns = createYielder(MAX_SLICE);
      for (;;) {
        const { done, value } = steps.next();
        if (done) return value;
        const pause = turns.pass();
        if (pause) await pause;
      }
    },
  };
}

type IsShown = (account: string) => boolean;
const OMITTED = Symbol('omitted');

function createShown(encoding: Encoding, source: Source): Shown {
  return {
    source,
    fragments: new Map(source.families.flatMap(encoding.parts).map(({ key }) => [key, createFragment()])),
    exemplified: new Map(
      source.families.filter(({ type }) => type === 'histogram').map(({ name }) => [name, createFragment()]),
    ),
    isRead: false,
    revision: undefined,
    times: 0,
    shownTime: 0,
    version: 0,
  };
}

function checkedSamples({ source, fragments }: Shown): ReadonlyMap<string, readonly Sample[]> {
  const samples = source.samples();
  for (const name of samples.keys()) {
    if (!fragments.has(name)) throw new Error(`samples of ${name}, which their source does not list`);
  }
  return samples;
}

function* rendered(
  { source: { account, families: owned } }: Shown,
  samples: ReadonlyMap<string, readonly Sample[]>,
  encoding: Encoding,
) {
  const contents: { key: string; text: Content; exemplified: Content | undefined }[] = [];
  for (const part of owned.flatMap(encoding.parts)) {
    const own = samples.get(part.family.name) ?? [];
    const written = (format: Format) => contentOf(own, encoding.samples(part, account, format), encoding.charset);
    const text = yield* written('text');
    const exemplified = encoding.hasExemplars(part.family, own) ? yield* written('openmetrics') : undefined;
    contents.push({ key: part.key, text, exemplified });
  }
  return contents;
}

function createRendering(encoding: Encoding, onError: (source: Source, error: unknown) => void, isShown: IsShown) {
  let sources: readonly Source[] | undefined;
  let everything: readonly Shown[] = [];
  let families: ReturnType<typeof checkFamilies> = [];
  let byAccount: ReadonlyMap<string | undefined, readonly Shown[]> = new Map();
  let views = new Map<readonly Shown[], Map<Format, View>>();
  let latestVersion = 0;

  function* refresh(shown: Shown): Generator<void, void, void> {
    const { account } = shown.source;
    const isOmitted = account !== undefined && !isShown(account);
    const revision = isOmitted ? OMITTED : shown.source.revision();
    if (shown.isRead && revision === shown.revision) return;
    shown.times += 1;
    const time = shown.times;
    let samples: ReadonlyMap<string, readonly Sample[]> = new Map();
    try {
      if (!isOmitted) samples = checkedSamples(shown);
    } catch (error) {
      onError(shown.source, error);
    }
    const contents = yield* rendered(shown, samples, encoding);
    if (time < shown.shownTime) return;
    latestVersion += 1;
    const version = latestVersion;
    for (const { key, text, exemplified } of contents) {
      const fragment = shown.fragments.get(key) as Fragment;
      if (fillFragment(fragment, text, version)) shown.version = version;
      const other = shown.exemplified.get(key);
      if (other && fillFragment(other, exemplified ?? fragment.content, version)) shown.version = version;
    }
    [shown.isRead, shown.revision, shown.shownTime] = [true, revision, time];
    yield;
  }

  function createView(shown: readonly Shown[], format: Format): View {
    const groups = families
      .flatMap(encoding.parts)
      .map(({ key, family }) => ({
        header: createFragment(),
        bare: encoding.header(family, format),
        samples: shown.flatMap(
          ({ fragments, exemplified }) =>
            (format === 'openmetrics' ? exemplified.get(key) : undefined) ?? fragments.get(key) ?? [],
        ),
      }))
      .filter(({ samples }) => samples.length > 0);
    const end = createFragment();
    fillFragment(end, encoding.end(format), 0);
    const fragments = [...groups.flatMap(({ header, samples }) => [header, ...samples]), end];
    return { shown, groups, body: createBody(fragments, encoding.charset), version: -1 };
  }

  function viewOf(scope: Scope, format: Format): View {
    const chosen =
      scope === 'everything' ? everything : (byAccount.get(scope === 'agent' ? undefined : scope.account) ?? []);
    const known = views.get(chosen) ?? new Map<Format, View>();
    const view = known.get(format) ?? createView(chosen, format);
    // Unknown accounts are not cached: requests could otherwise fill the memory with names.
    if (chosen.length > 0) views.set(chosen, known.set(format, view));
    return view;
  }

  function* update(view: View): Generator<void, void, void> {
    for (const shown of view.shown) yield* refresh(shown);
    const latest = view.shown.reduce((latest, shown) => Math.max(latest, shown.version), 0);
    if (latest === view.version) return;
    for (const { header, bare, samples } of view.groups) fillFragment(header, encoding.framed(bare, samples), latest);
    view.version = latest;
  }

  function* work({ scope, format, gzip }: RenderOptions): Generator<void, Buffer, void> {
    const view = viewOf(scope, format);
    yield* update(view);
    return yield* gzip ? view.body.gzip() : view.body.plain();
  }

  return {
    work,
    use(next: readonly Source[]): void {
      if (next === sources) return;
      families = checkFamilies(next);
      const known = new Map(everything.map(shown => [shown.source, shown]));
      sources = next;
      everything = next.map(source => known.get(source) ?? createShown(encoding, source));
      byAccount = Map.groupBy(everything, ({ source }) => source.account);
      views = new Map();
    },
  };
}
