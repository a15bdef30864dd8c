import { printable } from '../../kit/text.ts';
import type { Labels } from '../notice.ts';

export interface Link {
  readonly href: string;
  readonly text: string;
}

/** Converts untrusted text to one line without control characters. */
export const toLine = (text: string) => printable(text.replace(/\s+/g, ' ').toWellFormed());

/** Formats labels without `alertname`: `a="b" c="d"`. */
export function labelText({ alertname: _, ...labels }: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(' ');
}

/** Returns the links in an alert's annotations (only http and https), and the link to the status page. */
export function linksOf({ runbook_url, dashboard_url }: Labels, externalUrl: string): readonly Link[] {
  const all = { runbook: runbook_url, dashboard: dashboard_url, 'status page': externalUrl };
  return Object.entries(all).flatMap(([text, address]) => {
    const url = URL.parse(address ?? '');
    return url && /^https?:$/.test(url.protocol) ? [{ href: url.href, text }] : [];
  });
}
