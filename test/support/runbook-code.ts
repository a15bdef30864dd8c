/** Extracts the code in the runbooks, which operators copy, and determines its kind. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { accountPlan, collectors, LABEL_VALUES } from '../../src/collectors/index.ts';
import { configJsonSchema, type JsonSchema, withoutNull } from '../../src/config/yaml-file.ts';
import { CHECK_SEVERITIES } from '../../src/model/check-kind.ts';
import { BREAKERS } from '../../src/model/journal.ts';
import { BUILTIN_KINDS } from '../../src/rules/checks/alerts.ts';
import { REQUEST_OUTCOMES } from '../../src/upstream/errors.ts';
import { knownSeries } from '../mixin/known-series.ts';

export interface Code {
  readonly runbook: string;
  /** One line of code. */
  readonly text: string;
  readonly kind: 'shell' | 'promql' | 'page' | 'word' | 'unknown';
}

const COMMANDS = ['plan', 'rotate-token'];

/** Returns all paths of a configuration without item indexes. */
function pathsOf(schema: JsonSchema, path: string): string[] {
  const inner = withoutNull(schema);
  const own = Object.entries(inner.properties ?? {}).flatMap(([key, value]) => pathsOf(value, `${path}.${key}`));
  const named = inner.propertyNames?.enum?.map(key => `${path}.${key}`) ?? [];
  return [path, ...own, ...named, ...(inner.items ? pathsOf(inner.items, path) : [])];
}

const paths = pathsOf(configJsonSchema(), '');
// Some rounds exist only if they are enabled.
const rounds = collectors.flatMap(({ options, rounds }) =>
  Object.keys(rounds({ ...(options.parse({}) as object), watch: ['key'] })),
);
const WORDS: ReadonlySet<string> = new Set([
  ...COMMANDS,
  ...REQUEST_OUTCOMES,
  ...BREAKERS,
  ...rounds,
  ...Object.keys(accountPlan.rounds({ every: 1 })),
  ...BUILTIN_KINDS.map(({ kind }) => kind),
  ...CHECK_SEVERITIES,
  ...[...LABEL_VALUES.values()].flatMap(labels => Object.values(labels).flatMap(values => values ?? [])),
  ...[...knownSeries.values()].flat(),
  // The scrape job, and a reason for failed rounds.
  'delivery-watch',
  'store',
  // Lists of the service, and required fields and states of their rows.
  '/v2/events',
  '/v2/flowControl',
  'dlqId',
  'messageId',
  'state',
  'time',
  'flowControlKey',
  'toDate',
  // Parts of the command that retries dead letters.
  'DELIVERY_TOKEN',
  'BASE_URL',
  '-r',
  '-X DELETE',
  '/v2/dlq?',
]);

/** Whether the text is a configuration key below any section, optionally with a value. */
function isSetting(text: string): boolean {
  const [key = ''] = text.split(': ');
  return /^[\w.]+$/.test(key) && paths.some(path => path.endsWith(`.${key}`));
}

/** Returns the kind of inline code. Code blocks state their language instead. */
export function kindOf(text: string): Code['kind'] {
  if (/^(delivery-watch|curl) /.test(text)) return 'shell';
  if (/^\/(accounts\/NAME|auto-cancel)?$/.test(text)) return 'page';
  if (/[([{]/.test(text) || /^(delivery_|up$)/.test(text)) return 'promql';
  return WORDS.has(text) || isSetting(text) || (text.includes('/') && existsSync(text)) ? 'word' : 'unknown';
}

const LANGUAGES: Readonly<Record<string, Code['kind']>> = { sh: 'shell', promql: 'promql' };

/** Returns all code of a text: each line of a block, and inline code. */
export function codeIn(runbook: string, markdown: string): Code[] {
  const blocks: Code[] = [];
  const rest = markdown.replaceAll(/^```(\w*)\n([\s\S]*?)^```$/gm, (_block, language: string, lines: string) => {
    const kind = LANGUAGES[language] ?? 'unknown';
    blocks.push(
      ...lines
        .trimEnd()
        .split('\n')
        .map(text => ({ runbook, text, kind })),
    );
    return '';
  });
  const inline = [...rest.matchAll(/`([^`]+)`/g)].map(([, text = '']) => ({ runbook, text, kind: kindOf(text) }));
  return [...blocks, ...inline];
}

export const runbookCode: readonly Code[] = globSync('docs/runbooks/*.md')
  .sort()
  .flatMap(file => codeIn(basename(file, '.md'), readFileSync(file, 'utf8')));
