import { plural, printable } from '../../kit/text.ts';
import type { Labels, Notice } from '../notice.ts';
import type { Notification } from './receiver.ts';

/** Severities, lowest first. */
export const SEVERITIES = ['info', 'warning', 'error', 'critical'] as const;

/** Returns the severity of an alert. An alert without a known severity counts as `warning`. */
export const severityOf = ({ severity }: Labels) => SEVERITIES.find(known => known === severity) ?? 'warning';

export const severityRank = (labels: Labels): number => SEVERITIES.indexOf(severityOf(labels));

export const highestSeverity = (notices: readonly Notice[]): string =>
  SEVERITIES[Math.max(0, ...notices.map(({ labels }) => severityRank(labels)))] ?? '';

/** Converts untrusted text to one line without control characters. */
export const toLine = (text: string) => printable(text.replace(/\s+/g, ' '));

/** Converts untrusted text to one line of at most `limit` characters. `escaped` replaces each character. */
export function shortened(text: string, limit: number, escaped: (character: string) => string = same => same): string {
  let out = '';
  for (const character of toLine(text)) {
    const next = escaped(character);
    if (out.length + next.length > limit - 1) return `${out}…`;
    out += next;
  }
  return out;
}

/** Formats labels without `alertname`: `a="b" c="d"`. */
export function labelText({ alertname: _, ...labels }: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(' ');
}

const COLOURS = { critical: 0xd00000, error: 0xd00000, warning: 0xe8a33d, info: 0x439fe0 } as const;
const RESOLVED = 0x2eb67d;

/** Returns the colour (RGB) of an alert. */
export const colourOf = ({ status, labels }: Notice): number =>
  status === 'resolved' ? RESOLVED : COLOURS[severityOf(labels)];

/** Describes the number of alerts that a notification omits. */
export const omittedText = (left: number) => `${plural(left, 'more alert is', 'more alerts are')} not listed`;

/** Orders alerts as they are shown: firing ones first. */
export const firingFirst = (notices: readonly Notice[]): readonly Notice[] =>
  notices.toSorted((a, b) => Number(a.status === 'resolved') - Number(b.status === 'resolved'));

/** Returns the title of a notification: `[FIRING 1, RESOLVED 2] DlqGrowing account="production"`. */
export function titleOf({ notices, group: { labels } }: Pick<Notification, 'notices' | 'group'>): string {
  const counts = (['firing', 'resolved'] as const).flatMap(status => {
    const count = notices.filter(each => each.status === status).length;
    return count > 0 ? [`${status.toUpperCase()} ${count}`] : [];
  });
  const name = labels.alertname ?? notices[0]?.labels.alertname ?? '';
  return `[${counts.join(', ')}] ${name} ${labelText(labels)}`.trim();
}

/** Returns summary and description of an alert, with the prefix `Last report:` if it is resolved. */
export function summaryOf({ status, annotations }: Notice): string {
  const text = [annotations.summary, annotations.description].filter(Boolean).join(' ');
  return status === 'resolved' && text !== '' ? `Last report: ${text}` : text;
}

export type Link = ReturnType<typeof linksOf>[number];

/** Returns the links in an alert's annotations (only http and https), and the link to the status page, or to dead letters there. */
export function linksOf({ runbook_url, dashboard_url, status_url = '' }: Labels, externalUrl: string) {
  const page = status_url.includes('/dlq?kind=') ? 'dead letters of this kind' : 'status page';
  const all = { runbook: runbook_url, dashboard: dashboard_url, [page]: status_url || externalUrl };
  return Object.entries(all).flatMap(([text, address]) => {
    const url = URL.parse(address ?? '');
    return url && /^https?:$/.test(url.protocol) ? [{ href: url.href, text }] : [];
  });
}
