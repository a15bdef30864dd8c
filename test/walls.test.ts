import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';

/**
 * Modules with their permitted imports, lowest first. A module is a folder of src/, or mixin/.
 */
const TABLE: readonly (readonly [module: string, imports: string])[] = [
  ['kit', ''],
  ['model', 'kit'],
  ['upstream', 'kit model'],
  ['lookup', 'kit model upstream'],
  ['store', 'kit model'],
  ['metrics', 'kit model'],
  ['telemetry', 'kit model'],
  ['scheduler', 'kit model store'],
  ['replicas', 'kit upstream store metrics scheduler'],
  ['history', 'kit model store metrics'],
  ['collectors', 'kit model upstream store metrics scheduler'],
  ['rotation', 'kit model upstream'],
  ['notify', 'kit model upstream store metrics scheduler replicas collectors'],
  ['rules', 'kit model upstream store metrics scheduler replicas history collectors notify'],
  ['auto-cancel', 'kit model upstream store metrics scheduler collectors notify'],
  ['http', 'kit model'],
  [
    'status',
    'kit model upstream lookup store metrics scheduler replicas history collectors notify rules auto-cancel http',
  ],
  ['config', 'kit upstream store metrics telemetry scheduler collectors notify rules auto-cancel http'],
  [
    'agent',
    'kit model upstream lookup store metrics telemetry scheduler replicas history collectors notify rules auto-cancel http status config',
  ],
  ['emulator', 'kit'],
  [
    'cli',
    'kit model upstream lookup store metrics telemetry scheduler collectors rotation rules notify auto-cancel http status config agent emulator',
  ],
  ['mixin', 'kit metrics collectors rules cli'],
];
const MODULES = new Map(TABLE.map(([module, imports]) => [module, imports === '' ? [] : imports.split(' ')] as const));
const importsOf = (module: string): readonly string[] | undefined => MODULES.get(module);

/** Files of a module that others may import, in addition to its `options.ts`. All files of unlisted modules are public. */
const DOORS: Readonly<Record<string, readonly string[]>> = {
  // rotator.ts resets tokens: only rotation may import it.
  upstream: ['api.ts', 'budget.ts', 'errors.ts', 'post.ts', 'token.ts', 'rotator.ts'],
  store: ['store.ts', 'errors.ts', 'account-row.ts', 'memory.ts'],
  collectors: ['index.ts'],
  rotation: ['index.ts'],
  rules: ['families.ts', 'checks/alerts.ts'],
  emulator: ['server.ts'],
};
/**
 * Files that make decisions and must not have side effects. They may import kit, model, `options.ts` files and each other, but
 * neither other files nor Node.js modules.
 */
const PURE: ReadonlySet<string> = new Set(
  ['evaluate', 'stages', 'limits', 'conditions', 'journal-state', 'options', 'stuck-when', 'waits']
    .map(name => `auto-cancel/${name}.ts`)
    .concat(['evaluate-condition', 'options', 'promql', 'state'].map(name => `rules/${name}.ts`))
    .concat('history/points.ts'),
);
/** Modules from which config may import files other than `options.ts`. */
const CONFIG_OPENS = ['kit', 'collectors', 'metrics', 'rules'];
const OPENS_EVERY_FILE = ['status', 'agent', 'cli', 'mixin'];

/** Exceptions to `OPENS_EVERY_FILE`: modules from which only `options.ts` and these files may be imported. */
const ALSO_CLOSED: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  cli: { status: ['api/report.ts'] },
  mixin: { rules: ['checks/alerts.ts', 'promql.ts'], cli: ['shipped.ts'] },
};

/** Modules that may import each library. */
const LIBRARIES: Readonly<Record<string, readonly string[]>> = {
  commander: ['cli'],
  yaml: ['config', 'mixin'],
  ...Object.fromEntries(
    ['cog', 'common', 'dashboard', 'heatmap', 'prometheus', 'stat', 'statetimeline', 'table', 'timeseries'].map(
      name => [`@grafana/grafana-foundation-sdk/${name}`, ['mixin']],
    ),
  ),
  undici: ['upstream', 'agent', 'cli'],
  'prom-client': ['metrics'],
  express: ['http', 'status', 'emulator'],
  bcryptjs: ['http'],
  tinypool: ['http'],
  pino: ['telemetry'],
  '@opentelemetry/api': ['telemetry'],
  '@opentelemetry/exporter-trace-otlp-http': ['telemetry'],
  '@opentelemetry/exporter-trace-otlp-proto': ['telemetry'],
  '@opentelemetry/resources': ['telemetry'],
  '@opentelemetry/sdk-node': ['telemetry'],
  '@opentelemetry/sdk-trace': ['telemetry'],
  zod: [
    'kit',
    'upstream',
    'store',
    'metrics',
    'telemetry',
    'collectors',
    'scheduler',
    'http',
    'status',
    'config',
    'emulator',
    'auto-cancel',
    'notify',
    'rules',
  ],
  croner: ['kit'],
  'p-limit': ['upstream', 'store', 'auto-cancel', 'http', 'status', 'agent', 'cli'],
  pg: ['store'],
  'path-to-regexp': ['collectors'],
  re2js: ['auto-cancel'],
};

const IMPORT = /(?:\bfrom\s+|\bimport\s*\(\s*|\bimport\s+)'([^']+)'/g;

/** Returns the path of an imported file, relative to src/ or as `mixin/…`. */
const targetOf = (path: string, imported: string) =>
  normalize(join(dirname(path), imported)).replace(/^(src|\.\.)\//, '');

/** Returns the forbidden imports in a source text. `path` is relative to src/ or starts with `mixin/`. */
function breaches(path: string, text: string): string[] {
  const [module = ''] = path.split('/');
  if (module === 'main.ts') return [];
  const found: string[] = [];
  const isPure = PURE.has(path);
  for (const [, imported = ''] of text.matchAll(IMPORT)) {
    if (imported.startsWith('node:')) {
      if (isPure) found.push(`${path}: a pure file may not import ${imported}`);
      continue;
    }
    if (!imported.startsWith('.')) {
      if (!LIBRARIES[imported]?.includes(module))
        found.push(`${path}: ${module} may not import the library ${imported}`);
      continue;
    }
    if (path === 'kit/version.ts' && imported === '../../package.json') continue;
    const target = targetOf(path, imported);
    const [other = '', ...rest] = target.split('/');
    const file = rest.join('/');
    const doors = ALSO_CLOSED[module]?.[other] ?? (OPENS_EVERY_FILE.includes(module) ? undefined : DOORS[other]);
    if (isPure && !['kit', 'model'].includes(other) && !PURE.has(target) && file !== 'options.ts')
      found.push(`${path}: a pure file may not import ${target}`);
    else if (other === module) continue;
    else if (target === 'upstream/rotator.ts' && module !== 'rotation')
      found.push(`${path}: only rotation may import ${target}`);
    else if (!importsOf(module)?.includes(other)) found.push(`${path}: ${module} may not import ${other}`);
    else if (file === 'options.ts') continue;
    else if (doors && !doors.includes(file)) found.push(`${path}: ${target} is not a public file of ${other}`);
    else if (module === 'config' && !CONFIG_OPENS.includes(other))
      found.push(`${path}: config may import only the options of ${other}`);
  }
  return found;
}

/** Returns the first import cycle, type imports included, or an empty list. `texts`: source texts by path. */
function cycleIn(texts: ReadonlyMap<string, string>): string[] {
  const done = new Set<string>();
  function visit(path: string, trail: readonly string[]): string[] {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path];
    if (done.has(path)) return [];
    for (const [, imported = ''] of (texts.get(path) ?? '').matchAll(IMPORT)) {
      if (!imported.startsWith('.')) continue;
      const found = visit(targetOf(path, imported), [...trail, path]);
      if (found.length > 0) return found;
    }
    done.add(path);
    return [];
  }
  return [...texts.keys()].map(path => visit(path, [])).find(cycle => cycle.length > 0) ?? [];
}

const files = [...globSync('**/*.ts', { cwd: 'src' }), ...globSync('mixin/*.ts')];
const textOf = (path: string) => readFileSync(path.startsWith('mixin/') ? path : join('src', path), 'utf8');

describe('import rules', () => {
  it.each(files)('%s obeys the import rules', path => {
    expect(breaches(path, textOf(path))).toEqual([]);
  });

  it('each exported name is declared in only one file', () => {
    const DECLARED = /^export (?:abstract |async )*(?:interface|type|class|enum|const|let|function\*?) (\w+)/gm;
    const declared = files.flatMap(path => {
      const names = new Set(Array.from(textOf(path).matchAll(DECLARED), ([, name]) => name));
      return [...names].map(name => ({ name, path }));
    });
    const repeated = [...Map.groupBy(declared, ({ name }) => name)].flatMap(([name, places]) =>
      places.length > 1 ? [`${name}: ${places.map(({ path }) => path).join(', ')}`] : [],
    );
    expect(repeated, 'rename all but one declaration of each exported name').toEqual([]);
  });

  it('no file imports itself, directly or indirectly', () => {
    expect(cycleIn(new Map(files.map(path => [path, textOf(path)])))).toEqual([]);
  });

  it('import cycles are detected, including cycles of type imports', () => {
    const planted = new Map([
      ['main.ts', `import { a } from './kit/a.ts';`],
      ['kit/a.ts', `import type { B } from './b.ts';\nexport const a: B = 1;`],
      ['kit/b.ts', `export * from '../model/c.ts';`],
      ['model/c.ts', `export type C = typeof import('../kit/a.ts').a;`],
    ]);
    expect(cycleIn(planted)).toEqual(['kit/a.ts', 'kit/b.ts', 'model/c.ts', 'kit/a.ts']);
    planted.delete('model/c.ts');
    expect(cycleIn(planted)).toEqual([]);
  });

  it('every file in the list of pure files exists', () =>
    expect([...PURE].filter(path => !files.includes(path))).toEqual([]));

  it('the table in docs/contributing/architecture.md matches the import rules', () => {
    const page = readFileSync('docs/contributing/architecture.md', 'utf8');
    const rows = [...page.matchAll(/^\| `([\w-]+)` \| .* \| (.*) \|(.*)\|$/gm)];
    const modules = [...MODULES.keys()];
    const named = (text: string) => modules.filter(module => new RegExp(`(?<![\\w-])${module}(?![\\w-])`).test(text));
    const documented = rows.map(([, module = '', imports = '', door = '']) => ({
      module,
      imports: (imports.startsWith('all but ')
        ? modules.filter(other => other !== module && !named(imports).includes(other))
        : named(imports)
      ).sort(),
      doors: [...door.matchAll(/`([^`]+)`/g)].map(([, file]) => file),
    }));
    const enforced = modules.map(module => ({
      module,
      imports: [...(importsOf(module) ?? [])].sort(),
      doors: DOORS[module] ?? [],
    }));
    expect(documented, 'change docs/contributing/architecture.md, or TABLE and DOORS in test/walls.test.ts').toEqual(
      enforced,
    );
  });

  it('modules import only modules above them in the table', () => {
    const order = [...MODULES.keys()];
    const upwards = order.filter((module, at) => importsOf(module)?.some(other => order.indexOf(other) >= at));
    expect(upwards).toEqual([]);
  });

  it('every module is listed in the table', () => {
    const modules = new Set(files.filter(path => path.includes('/')).map(path => path.split('/')[0]));
    const unlisted = [...modules].filter(module => !MODULES.has(module as string));
    expect(
      unlisted,
      'add these modules to TABLE in test/walls.test.ts and to docs/contributing/architecture.md',
    ).toEqual([]);
  });

  it.each([
    ['collectors/x.ts', `import type { Outbox } from '../notify/outbox.ts';`, 'collectors may not import notify'],
    [
      'collectors/x.ts',
      `import { toPage } from '../upstream/wire.ts';`,
      'upstream/wire.ts is not a public file of upstream',
    ],
    ['emulator/routes/x.ts', `import { EVENT_STATES } from '../../model/message.ts';`, 'emulator may not import model'],
    ['http/x.ts', `const { api } = await import('../upstream/api.ts');`, 'http may not import upstream'],
    ['rotation/x.ts', `import { createStore } from '../store/store.ts';`, 'rotation may not import store'],
    [
      'config/x.ts',
      `import { openSqlite } from '../store/sqlite.ts';`,
      'store/sqlite.ts is not a public file of store',
    ],
    [
      'config/x.ts',
      `import { runLoop } from '../scheduler/loop.ts';`,
      'config may import only the options of scheduler',
    ],
    [
      'mixin/x.ts',
      `import { evaluateCondition } from '../src/rules/evaluate-condition.ts';`,
      'rules/evaluate-condition.ts is not a public file of rules',
    ],
    ['cli/x.ts', `import { records } from '../../mixin/rules.ts';`, 'cli may not import mixin'],
    [
      'rules/evaluate-condition.ts',
      `import { createSelection } from './facts.ts';`,
      'a pure file may not import rules/facts.ts',
    ],
    [
      'agent/x.ts',
      `import { createRotator } from '../upstream/rotator.ts';`,
      'only rotation may import upstream/rotator.ts',
    ],
    ['kit/x.ts', `import express from 'express';`, 'kit may not import the library express'],
    [
      'auto-cancel/stages.ts',
      `import type { Journal } from './journal.ts';`,
      'a pure file may not import auto-cancel/journal.ts',
    ],
    [
      'auto-cancel/evaluate.ts',
      `import type { Reader } from '../upstream/api.ts';`,
      'a pure file may not import upstream/api.ts',
    ],
    ['auto-cancel/evaluate.ts', `import { readFileSync } from 'node:fs';`, 'a pure file may not import node:fs'],
    ['cli/x.ts', `import { page } from '../status/overview.ts';`, 'status/overview.ts is not a public file of status'],
  ])('a violation of the import rules in %s is detected: %s', (path, text, breach) => {
    expect(breaches(path, text)).toEqual([`${path}: ${breach}`]);
  });

  it('only the rotate-token command can reset a token', () => {
    const importersOf = (file: RegExp) =>
      files.filter(path => [...textOf(path).matchAll(IMPORT)].some(([, from = '']) => file.test(from)));
    expect(importersOf(/\/rotator\.ts$/).filter(path => !path.startsWith('rotation/'))).toEqual([]);
    expect(importersOf(/\/rotation\//)).toEqual(['cli/rotate-token.ts']);
    const including = (text: string) =>
      files.filter(path => !path.startsWith('emulator/') && textOf(path).includes(text));
    expect(including('/rotatetoken')).toEqual(['upstream/options.ts']);
    expect(including('paths.rotateToken').sort()).toEqual(['rotation/index.ts', 'upstream/options.ts']);
  });

  it('OpenTelemetry packages are loaded only to send spans', () => {
    const traces = ['sdk', 'message-spans'];
    const heavy = [...traces.map(name => `telemetry/${name}.ts`)];
    const isHeavy = (path: string, imported: string) =>
      imported.startsWith('.')
        ? heavy.includes(normalize(join(dirname(path), imported)))
        : imported.startsWith('@opentelemetry/') && imported !== '@opentelemetry/api';
    const loaders = files.filter(path =>
      [...textOf(path).matchAll(/^import (?!type\b)[^;]*?from '([^']+)'/gm)].some(([, imported = '']) =>
        isHeavy(path, imported),
      ),
    );
    // These files load each other. All others must use import().
    expect(loaders.filter(path => !heavy.includes(path))).toEqual([]);
    expect(loaders.length).toBeGreaterThan(1);
  });

  it('the PostgreSQL client is loaded only for a PostgreSQL store', () => {
    const heavy = ['postgres', 'postgres-database', 'lease'].map(name => `store/${name}.ts`);
    expect(files).toEqual(expect.arrayContaining(heavy));
    const loaders = files.filter(path =>
      [...textOf(path).matchAll(/^import (?!type\b)[^;]*?from '([^']+)'/gm)].some(
        ([, imported = '']) => imported === 'pg' || heavy.includes(normalize(join(dirname(path), imported))),
      ),
    );
    expect(loaders.filter(path => !heavy.includes(path))).toEqual([]);
    expect(loaders).toContain('store/postgres-database.ts');
  });

  it('the serve command loads no other command and no emulator', () => {
    const carried = (path: string): string[] => {
      const found = new Set([path]);
      for (const each of found) {
        for (const [, imported = ''] of textOf(each).matchAll(
          /^(?:import|export) (?!type\b)[^;]*?from '(\.[^']+\.ts)'/gm,
        ))
          found.add(targetOf(each, imported));
      }
      return [...found].filter(file => /^(cli|emulator|mixin)\//.test(file)).sort();
    };
    expect(carried('cli/cli.ts')).toEqual(['cli/cli.ts', 'cli/config-option.ts']);
    expect(carried('cli/serve.ts')).toEqual([
      'cli/config-option.ts',
      'cli/save-memory.ts',
      'cli/serve.ts',
      'cli/until-stopped.ts',
    ]);
  });

  it('code that reads rows of the service parses URLs only with parseUrl, which bounds their hosts', () => {
    const readers = files.filter(path =>
      /^(collectors|lookup|model|rules|auto-cancel)\/|^upstream\/dlq-|^status\/[\w-]+\.ts/.test(path),
    );
    expect(readers.length).toBeGreaterThan(100);
    const others = readers.filter(path => /\bURL\.(parse|canParse)\(|new URL\(/.test(textOf(path)));
    expect(others).toEqual(['status/server.ts']);
  });

  it('only kit/clock.ts reads the time and starts timers', () => {
    const takers = files.filter(
      path =>
        path !== 'kit/clock.ts' &&
        /\b(Date\.now|setTimeout|setInterval|performance\.now|AbortSignal\.timeout)\b/.test(textOf(path)),
    );
    expect(takers).toEqual([]);
  });
});
