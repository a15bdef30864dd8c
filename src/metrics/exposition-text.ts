import type { Format } from '../model/exposition.ts';
import { type Family, formatValue, type Sample } from './family.ts';

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' };
const escapeOne = (character: string) => ESCAPES[character] as string;

/** Escapes a label value. Keeps control characters such as NUL, which Prometheus's parsers accept since 2.0 in both formats. */
function escapeLabelValue(value: string): string {
  return /[\\"\n]/.test(value) ? value.replace(/[\\"\n]/g, escapeOne) : value;
}

/** Returns the name in HELP, TYPE and UNIT lines: OpenMetrics removes the suffix of counters and infos. */
function familyName(family: Family, format: Format): string {
  if (format === 'text') return family.name;
  if (family.type === 'counter') return family.name.replace(/_total$/, '');
  if (family.type === 'info') return family.name.replace(/_info$/, '');
  return family.name;
}

const unitOf = (family: Family): string | undefined => /_(seconds|bytes)$/.exec(familyName(family, 'openmetrics'))?.[1];

export function renderHeader(family: Family, format: Format): string {
  const name = familyName(family, format);
  const type = format === 'text' && family.type === 'info' ? 'gauge' : family.type;
  const special = format === 'text' ? /[\\\n]/g : /[\\\n"]/g;
  const help = `# HELP ${name} ${family.help.replace(special, escapeOne)}\n# TYPE ${name} ${type}\n`;
  const unit = unitOf(family);
  return unit !== undefined && format === 'openmetrics' ? `${help}# UNIT ${name} ${unit}\n` : help;
}

/** Returns a function that formats samples as lines, the same in both formats. It skips repeated series, which both forbid. */
export function createLines(family: Family, account: string | undefined) {
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
export const END: Readonly<Record<Format, string>> = { text: '', openmetrics: '# EOF\n' };
