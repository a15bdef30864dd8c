import { printable } from '../../kit/text.ts';

type Labels = Readonly<Record<string, string>>;

export interface Link {
  readonly href: string;
  readonly text: string;
}

/** Converts untrusted text to one line without control characters. */
export const toLine = (text: string) => printable(text.replace(/\s+/g, ' ').toWellFormed());

/** Labels without `alertname`: `a="b" c="d"`. */
export function labelText({ alertname: _, ...labels }: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(' ');
}

/** Links of an alert's annotations and to the status page. Annotations with another scheme than http or https are omitted. */
export function linksOf({ runbook_url, dashboard_url }: Labels, externalUrl: string): readonly Link[] {
  const all = { runbook: runbook_url, dashboard: dashboard_url, 'status page': externalUrl };
  return Object.entries(all).flatMap(([text, address]) => {
    const url = URL.parse(address ?? '');
    return url && /^https?:$/.test(url.protocol) ? [{ href: url.href, text }] : [];
  });
}
