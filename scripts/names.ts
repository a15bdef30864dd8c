import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { parse } from 'yaml';
import { allCommands } from '../src/cli/cli.ts';
import type { JsonSchema } from '../src/config/yaml-file.ts';
import { BUILTIN_ALERTS } from '../src/rules/checks/alerts.ts';

/**
 * Names that users and other programs rely on. test/contract/names/ contains those of each version, and
 * test/contract/names.test.ts fails if a name is missing in a later version.
 */
export interface PublicNames {
  /** `NAME TYPE {LABEL,…}` */
  readonly metrics: readonly string[];
  readonly alerts: readonly string[];
  /** `PATH` of each key, and `PATH = VALUE` of each choice. */
  readonly config: readonly string[];
  /** `COMMAND --option` and `COMMAND <argument>`. */
  readonly commands: readonly string[];
  /** `METHOD PATH STATUS`, and `SCHEMA.PROPERTY` of each response. */
  readonly api: readonly string[];
}

/** Parses the tables of docs/metrics.md. */
function metricNames(text: string): string[] {
  const rows = text.matchAll(/^\| `([a-z_0-9]+)` \| (\w+) \| (.*?) \|/gm);
  return [...rows].map(([, name, type, labels]) => `${name} ${type} {${labels?.replace(/[` ]/g, '')}}`);
}

/** Parses the alerts of a rules file. */
function alertNames(file: string): string[] {
  const { groups }: { groups: { rules: { alert?: string }[] }[] } = parse(readFileSync(file, 'utf8'));
  return groups.flatMap(({ rules }) => rules.flatMap(({ alert }) => alert ?? []));
}

function keysOf(schema: JsonSchema, path: string): string[] {
  const { properties = {}, items, propertyNames, anyOf = [] } = schema;
  const inner = [items, propertyNames].filter(each => each !== undefined);
  return [
    ...(schema.enum ?? []).filter(value => value !== null).map(value => `${path} = ${value}`),
    ...Object.entries(properties).flatMap(([key, value]) => {
      const name = path === '' ? key : `${path}.${key}`;
      return [name, ...keysOf(value, name)];
    }),
    ...inner.flatMap(each => keysOf(each, `${path}[]`)),
    ...anyOf.flatMap(each => keysOf(each, path)),
  ];
}

function commandNames(command: Command, prefix: string): string[] {
  const name = `${prefix}${command.name()}`;
  return [
    ...command.registeredArguments.map(argument => `${name} <${argument.name()}>`),
    ...command.options.map(({ long }) => `${name} ${long}`),
    ...(command.commands.length === 0 ? [name] : command.commands.flatMap(each => commandNames(each, `${name} `))),
  ];
}

interface Api {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses?: object }>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

function apiNames({ paths, components }: Api): string[] {
  const responses = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { responses = {} }]) =>
      Object.keys(responses).map(status => `${method} ${path} ${status}`),
    ),
  );
  return [...responses, ...Object.entries(components.schemas).flatMap(([name, schema]) => keysOf(schema, name))];
}

const sorted = (names: readonly string[]) => [...new Set(names)].sort();

/** Reads the public names from generated files. `npm run check` verifies that these files match the code. */
export async function publicNames(): Promise<PublicNames> {
  const read = (file: string) => readFileSync(file, 'utf8');
  const commands = await allCommands();
  return {
    metrics: sorted(metricNames(read('docs/metrics.md'))),
    alerts: sorted([
      ...BUILTIN_ALERTS,
      ...['alerting', 'slo'].flatMap(name => alertNames(`dashboards/rules/${name}.yaml`)),
    ]),
    config: sorted(keysOf(JSON.parse(read('config.schema.json')), '')),
    commands: sorted(commands.flatMap(command => commandNames(command, ''))),
    api: sorted(apiNames(JSON.parse(read('docs/openapi.json')))),
  };
}

/**
 * Whether the repository has the tag of this version. Its recorded names and store must then not change. False without a repository,
 * as in an unpacked archive. Throws if git cannot list the tags.
 */
export function isReleased(version: string, cwd = '.'): boolean {
  if (!existsSync(join(cwd, '.git'))) return false;
  const tags = execFileSync('git', ['tag', '--list', `v${version}`], { cwd, encoding: 'utf8', stdio: 'pipe' });
  return tags.trim() === `v${version}`;
}
