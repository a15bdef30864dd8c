import type { ScopedVars } from '@grafana/data';
import { type Range, type Variable, warn } from './model.ts';
import { labelValues } from './prometheus.ts';

export interface Shown {
  readonly label: string;
  readonly text: string;
}

export type Replace = (text?: string, scoped?: ScopedVars | Record<string, unknown>) => string;

/** Supported variable formats. The formats for link URLs have no effect, because links are not drawn. */
const FORMATS = ['regex', 'raw', 'text', 'queryparam', 'percentencode'];

/** Returns a function that replaces `$name`, `${name}` and `${name:format}` in a text. */
export function replacing(values: ReadonlyMap<string, string>): Replace {
  return (text = '', scoped = {}) =>
    text.replaceAll(/\$(?:\{([\w.]+)(?::(\w+))?\}|(\w+))/g, (whole, braced, format, bare) => {
      const name = braced ?? bare;
      if (format !== undefined && !FORMATS.includes(format)) warn(`variable format :${format}`);
      const own = (scoped as Record<string, { value?: unknown }>)[name]?.value;
      return own === undefined ? (values.get(name) ?? whole) : String(own);
    });
}

const escaped = (text: string) => text.replaceAll(/[\\^$*+?.()|[\]{}]/g, String.raw`\$&`).replaceAll('\\', '\\\\');

async function optionsOf({ query, name }: Variable, replace: Replace, base: string, range: Range): Promise<string[]> {
  const text = replace(typeof query === 'string' ? query : (query?.query ?? ''));
  const [, match, label] = /^label_values\((.*),\s*(\w+)\)$/s.exec(text) ?? [];
  if (match !== undefined && label !== undefined) return labelValues(base, label, match, range);
  warn(`variable ${name}: query ${text}`);
  return [];
}

function allOf({ allValue }: Variable, options: readonly string[]): string {
  return allValue ?? (options.length === 1 ? escaped(options[0] ?? '') : `(${options.map(escaped).join('|')})`);
}

/** Resolves the variables in order; each may use the previous ones. */
export async function resolveVariables(
  variables: readonly Variable[],
  chosen: ReadonlyMap<string, string>,
  base: string,
  range: Range,
): Promise<{ values: Map<string, string>; shown: Shown[] }> {
  const values = new Map<string, string>();
  const shown: Shown[] = [];
  const set = (variable: Variable, value: string, text = value) => {
    values.set(variable.name, value);
    if (!variable.hide || variable.hide === 'dontHide') shown.push({ label: variable.label ?? variable.name, text });
  };
  for (const variable of variables) {
    const { name, type, includeAll, current, regex } = variable;
    if (regex) warn(`variable ${name}: regex`);
    const own = chosen.get(name);
    if (type === 'datasource') set(variable, 'prometheus', 'Prometheus');
    else if (own !== undefined) set(variable, own);
    else if (type === 'query') {
      const options = await optionsOf(variable, replacing(values), base, range);
      if (includeAll) set(variable, allOf(variable, options), 'All');
      else set(variable, options[0] ?? '');
    } else {
      if (!['custom', 'constant', 'textbox', 'interval'].includes(type)) warn(`variable ${name}: type ${type}`);
      const value = current?.value ?? (typeof variable.query === 'string' ? variable.query.split(',')[0] : '');
      const text = typeof value === 'string' ? value : (value ?? []).join('|');
      if (text === '$__all') set(variable, allOf(variable, []), 'All');
      else set(variable, text ?? '');
    }
  }
  return { values, shown };
}
