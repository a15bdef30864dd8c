import { type Notice, timeText } from '../notice.ts';
import type { BodyFormat, Notification } from './receiver.ts';
import {
  colourOf,
  firingFirst,
  type Link,
  labelText,
  linksOf,
  omittedText,
  shortened,
  summaryOf,
  titleOf,
} from './words.ts';

/** Slack's limit on the length of a section's text (characters). */
const MAX_TEXT = 3000;
/** With three blocks per alert and one for the rest, a message stays below Slack's limit of 50 blocks. */
const MAX_ALERTS = 15;
/** Maximum lengths (characters). They are shorter than Slack's limits, for readability. */
const MAX_TITLE = 150;
const MAX_SUMMARY = 1500;
const MAX_LABELS = 1500;
const MAX_LINK = 900;

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** Escapes untrusted text to prevent mentions and links, and cuts it to `limit` characters of markup. */
const escaped = (text: string, limit: number) => shortened(text, limit, character => ESCAPES[character] ?? character);

/** Slack does not interpret formatting in `plain_text`. */
const plain = (text: string, limit: number) => ({ type: 'plain_text', text: escaped(text, limit), emoji: false });

function linkText({ href, text }: Link): string[] {
  const escapedHref = href.replace(/[|<>]/g, encodeURIComponent).replaceAll('&', '&amp;');
  return escapedHref.length > MAX_LINK ? [] : [`<${escapedHref}|${text}>`];
}

function toAttachment(notice: Notice, externalUrl: string) {
  const { status, labels, annotations, startsAt, endsAt } = notice;
  const title = `${status === 'firing' ? 'FIRING' : 'RESOLVED'} ${labels.alertname ?? ''} since ${timeText(startsAt)}`;
  const until = endsAt === undefined ? '' : ` until ${timeText(endsAt)}`;
  const text = summaryOf(notice);
  const links = linksOf(annotations, externalUrl).flatMap(linkText);
  const section = { type: 'section', text: plain(`${title}${until}`, MAX_TITLE) };
  const summary = text === '' ? [] : [{ type: 'section', text: plain(text, MAX_SUMMARY) }];
  const linked = links.length === 0 ? [] : [{ type: 'mrkdwn', text: links.join(' · ') }];
  const context = { type: 'context', elements: [plain(labelText(labels) || '–', MAX_LABELS), ...linked] };
  return { color: `#${colourOf(notice).toString(16)}`, blocks: [section, ...summary, context] };
}

/** Returns a message with firing alerts first. `text` is for push messages and for clients that cannot show blocks. */
function messageOf(notification: Notification) {
  const { notices, group, externalUrl } = notification;
  const all = firingFirst(notices);
  const text = [titleOf(notification), ...all.slice(0, 1).map(summaryOf)].filter(Boolean).join(': ');
  const omitted = plain(`${omittedText(group.left)}.`, MAX_TITLE);
  const rest = { color: '#808080', blocks: [{ type: 'context', elements: [omitted] }] };
  return {
    text: escaped(text, MAX_TEXT),
    mrkdwn: false,
    attachments: [...all.map(notice => toAttachment(notice, externalUrl)), ...(group.left > 0 ? [rest] : [])],
  };
}

export const slack: BodyFormat = {
  about: 'a message for incoming webhooks of Slack',
  maxAlerts: MAX_ALERTS,
  hasSecretUrl: true,
  bodyOf: notification => JSON.stringify(messageOf(notification)),
  // Slack's methods report errors in JSON with status 200; incoming webhooks use the status.
  isError: text => /^\s*\{.*"ok"\s*:\s*false/s.test(text),
};
