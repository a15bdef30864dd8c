import type { BodyFormat, Notification } from './receiver.ts';
import { firingFirst, highestSeverity, summaryOf, titleOf, toLine } from './words.ts';

const VALUES: Readonly<Record<string, (notification: Notification) => string>> = {
  title: notification => toLine(titleOf(notification)),
  text: ({ notices, group: { left } }) =>
    [
      ...firingFirst(notices).map(notice =>
        toLine(`${notice.status.toUpperCase()} ${notice.labels.alertname ?? ''}: ${summaryOf(notice)}`),
      ),
      ...(left > 0 ? [`${left} more`] : []),
    ].join('\n'),
  status: ({ notices }) => (notices.some(({ status }) => status === 'firing') ? 'firing' : 'resolved'),
  severity: ({ notices }) => highestSeverity(notices),
  url: ({ externalUrl }) => externalUrl,
};

const PLACEHOLDER = /\{\{\s*(.*?)\s*\}\}/g;

/** Returns the error of a template; undefined if it is valid. */
export function templateError(body: string, isJson: boolean): string | undefined {
  const unknown = [...body.matchAll(PLACEHOLDER)].find(([, name = '']) => !Object.hasOwn(VALUES, name));
  const names = Object.keys(VALUES).map(name => `{{ ${name} }}`);
  if (unknown) return `may contain ${names.join(', ')}, but not ${unknown[0]}`;
  try {
    if (isJson) JSON.parse(body.replaceAll(PLACEHOLDER, ''));
    return undefined;
  } catch {
    return 'must be JSON, with each placeholder inside quotes, unless headers has another content-type';
  }
}

export const template: BodyFormat = {
  about: 'the configured `body`',
  maxAlerts: 50,
  bodyOf: notification =>
    notification.template.replaceAll(PLACEHOLDER, (_, name: string) =>
      JSON.stringify(VALUES[name]?.(notification) ?? '').slice(1, -1),
    ),
};
