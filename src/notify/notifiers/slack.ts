import { plural } from '../../kit/text.ts';
import { type Notice, timeText } from '../notice.ts';
import type { BodyFormat, Notification } from './format.ts';
import { firingFirst, type Link, labelText, linksOf, shortened, summaryOf, titleOf } from './words.ts';

/** Slack's limit on the length of a section's text (characters). */
const MAX_TEXT = 3000;
/** With three blocks per alert and one for the rest, a message stays below Slack's limit of 50 blocks. */
const MAX_ALERTS = 15;
/** Maximum lengths (characters). They are shorter than Slack's limits, for readability. */
const MAX_TITLE = 150;
const MAX_SUMMARY = 1500;
const MAX_LABELS = 1500;
const MAX_LINK = 900;

const COLOURS: Readonly<Record<string, string>> = { critical: '#d00000', warning: '#e8a33d', info: '#439fe0' };
const FIRING = '#d00000';
const RESOLVED = '#2eb67d';

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** Escapes untrusted text to prevent mentions and links, and cuts it to `limit` characters of markup. */
const escaped = (text: string, limit: number) => shortened(text, limit, character => ESCAPES[character] ?? character);

/** Slack does not interpret formatting in `plain_text`. */
const plain = (text: string, limit: number) => ({ type: 'plain_text', text: escaped(text, limit), emoji: false });

function linkText({ href, text }: Link): string[] {
  const escapedHref = href.replace(/[|<>]/g, encodeURIComponent).replaceAll('&', '&amp;');
  return escapedHref.length > MAX_LINK ? [] : [`<${escapedHref}|${text}>`];
}

const colourOf = ({ status, labels: { severity = '' } }: Notice) =>
  status === 'resolved' ? RESOLVED : (COLOURS[severity] ?? FIRING);

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
  return { color: colourOf(notice), blocks: [section, ...summary, context] };
}

/** Returns a message with firing alerts first. `text` is for push messages and for clients that cannot show blocks. */
function messageOf(notification: Notification) {
  const { notices, group, externalUrl } = notification;
  const all = firingFirst(notices);
  const text = [titleOf(notification), ...all.slice(0, 1).map(summaryOf)].filter(Boolean).join(': ');
  const omitted = `${plural(group.left, 'more alert is', 'more alerts are')} not listed.`;
  const rest = {
    color: '#808080',
    blocks: [{ type: 'context', elements: [plain(omitted, MAX_TITLE)] }],
  };
  return {
    text: escaped(text, MAX_TEXT),
    mrkdwn: false,
    attachments: [...all.map(notice => toAttachment(notice, externalUrl)), ...(group.left > 0 ? [rest] : [])],
  };
}

/** Errors of Slack's incoming webhooks. No other part of a response body is logged. */
const ERRORS: readonly string[] = [
  'action_prohibited',
  'channel_is_archived',
  'channel_not_found',
  'invalid_blocks',
  'invalid_payload',
  'invalid_token',
  'no_active_hooks',
  'no_service',
  'no_service_id',
  'no_team',
  'no_text',
  'posting_to_general_channel_denied',
  'ratelimited',
  'rate_limited',
  'rollup_error',
  'team_disabled',
  'too_many_attachments',
  'user_not_found',
];

/**
 * Returns Slack's error, from a plain-text body or the member `error` of a JSON body that is not `ok`; undefined if there is
 * no error. A proxy may respond with any text, so unknown errors become `not_ok` or undefined.
 */
function errorOfSlack(text: string): string | undefined {
  const isNotOk = /^\s*\{.*"ok"\s*:\s*false/s.test(text);
  const word = isNotOk ? /"error"\s*:\s*"(\w+)"/.exec(text)?.[1] : text.trim();
  return ERRORS.find(error => error === word) ?? (isNotOk ? 'not_ok' : undefined);
}

export const slack: BodyFormat = {
  about: 'a message for incoming webhooks of Slack',
  maxAlerts: MAX_ALERTS,
  hasSecretUrl: true,
  bodyOf: notification => JSON.stringify(messageOf(notification)),
  errorIn: errorOfSlack,
};
