import { type Notice, timeText } from '../notice.ts';
import type { BodyFormat, Notification } from './receiver.ts';
import { colourOf, firingFirst, labelText, linksOf, omittedText, shortened, summaryOf, titleOf } from './words.ts';

/**
 * Maximum lengths (characters). Discord allows 2,000 for `content`, 256 for a title, 10 embeds, and 6,000 for the texts of all
 * embeds.
 */
const [MAX_CONTENT, MAX_TITLE, MAX_SUMMARY, MAX_LABELS, MAX_LINKS] = [400, 120, 150, 100, 200];

/** Escapes Markdown and mentions in untrusted text. */
const escaped = (character: string) => (/[\\*_~`|<>[\]()#@:-]/.test(character) ? `\\${character}` : character);

function toEmbed(notice: Notice, externalUrl: string) {
  const { status, labels, annotations, startsAt } = notice;
  const links = linksOf(annotations, externalUrl).map(
    ({ href, text }) => `[${text}](${href.replace(/[()]/g, encodeURIComponent)})`,
  );
  const linkLine = links.join(' · ');
  const lines = [
    shortened(summaryOf(notice), MAX_SUMMARY, escaped),
    shortened(labelText(labels), MAX_LABELS, escaped),
    linkLine.length > MAX_LINKS ? '' : linkLine,
  ];
  return {
    title: shortened(`${status.toUpperCase()} ${labels.alertname ?? ''}`, MAX_TITLE, escaped),
    description: lines.filter(line => line !== '').join('\n'),
    timestamp: timeText(startsAt),
    color: colourOf(notice),
  };
}

function messageOf(notification: Notification) {
  const { notices, group, externalUrl } = notification;
  const more = group.left > 0 ? ` (${omittedText(group.left)})` : '';
  return {
    content: `${shortened(titleOf(notification), MAX_CONTENT, escaped)}${more}`,
    embeds: firingFirst(notices).map(notice => toEmbed(notice, externalUrl)),
    allowed_mentions: { parse: [] },
  };
}

export const discord: BodyFormat = {
  about: 'a message with embeds for a Discord webhook',
  maxAlerts: 10,
  hasSecretUrl: true,
  bodyOf: notification => JSON.stringify(messageOf(notification)),
};
