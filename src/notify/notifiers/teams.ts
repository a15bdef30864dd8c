import { type Notice, timeText } from '../notice.ts';
import type { BodyFormat, Notification } from './receiver.ts';
import { firingFirst, labelText, linksOf, omittedText, severityOf, shortened, summaryOf, titleOf } from './words.ts';

const COLOURS = { critical: 'attention', error: 'attention', warning: 'warning', info: 'accent' } as const;

/** With these limits (characters), a message stays below the 28 KB of Teams, even if each character has three bytes. */
const [MAX_TITLE, MAX_TEXT] = [150, 350];

/** Teams does not interpret markup in a text run. */
const plain = (text: string, limit: number, style: object = {}) => ({
  type: 'RichTextBlock',
  inlines: [{ type: 'TextRun', text: shortened(text, limit), ...style }],
});

function toBlocks(notice: Notice) {
  const { status, labels, startsAt } = notice;
  const color = status === 'resolved' ? 'good' : COLOURS[severityOf(labels)];
  const title = `${status.toUpperCase()} ${labels.alertname ?? ''} since ${timeText(startsAt)}`;
  const summary = summaryOf(notice);
  return [
    plain(title, MAX_TITLE, { weight: 'bolder', color }),
    ...(summary === '' ? [] : [plain(summary, MAX_TEXT)]),
    plain(labelText(labels) || '–', MAX_TEXT, { isSubtle: true }),
  ];
}

function messageOf(notification: Notification) {
  const { notices, group, externalUrl } = notification;
  const [first] = notices;
  const links = linksOf(first?.annotations ?? {}, externalUrl).filter(({ href }) => href.length <= 900);
  const content = {
    $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
    type: 'AdaptiveCard',
    version: '1.4',
    msteams: { width: 'Full' },
    fallbackText: shortened(titleOf(notification), MAX_TITLE),
    body: [
      plain(titleOf(notification), MAX_TITLE, { weight: 'bolder', size: 'medium' }),
      ...firingFirst(notices).flatMap(toBlocks),
      ...(group.left > 0 ? [plain(`${omittedText(group.left)}.`, MAX_TITLE)] : []),
    ],
    actions: links.map(({ href, text }) => ({ type: 'Action.OpenUrl', title: text, url: href })),
  };
  return { type: 'message', attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', content }] };
}

export const teams: BodyFormat = {
  about: 'an Adaptive Card for a Microsoft Teams workflow',
  maxAlerts: 8,
  hasSecretUrl: true,
  bodyOf: notification => JSON.stringify(messageOf(notification)),
};
