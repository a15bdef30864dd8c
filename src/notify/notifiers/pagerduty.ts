import type { Secret } from '../../kit/secret.ts';
import { fingerprintOf, type Notice, timeText } from '../notice.ts';
import { labelText, linksOf, toLine } from './words.ts';

/** PagerDuty's limit on the length of a summary (characters), applied to all texts. */
const MAX_TEXT = 1024;

const SEVERITIES: readonly (string | undefined)[] = ['critical', 'error', 'warning', 'info'];

function bounded(text: string): string {
  const line = toLine(text);
  return line.length > MAX_TEXT ? `${line.slice(0, MAX_TEXT - 1).toWellFormed()}…` : line;
}

/** Returns the alert's severity if PagerDuty supports it. Otherwise: `info` for a notice that expires, else `error`. */
function severityOf({ labels: { severity }, lasts }: Notice): string | undefined {
  if (SEVERITIES.includes(severity)) return severity;
  return lasts === undefined ? 'error' : 'info';
}

/** Returns an event for the Events API v2. Repetitions are harmless, because an alert keeps its `dedup_key`. */
export function pagerdutyEvent(notice: Notice, externalUrl: string, routingKey: Secret | undefined) {
  const { status, labels, annotations, startsAt } = notice;
  const identity = { routing_key: routingKey?.reveal(), dedup_key: `delivery-watch/${fingerprintOf(labels)}` };
  if (status === 'resolved') return { ...identity, event_action: 'resolve' };
  const { alertname = '', account, severity: _, ...others } = labels;
  const text = [annotations.summary, annotations.description].filter(Boolean).join(' ');
  const source = account ?? 'delivery-watch';
  const component = labelText(others);
  return {
    ...identity,
    event_action: 'trigger',
    payload: {
      summary: bounded(`${alertname} (${source})${text === '' ? '' : `: ${text}`}`),
      source: bounded(source),
      severity: severityOf(notice),
      timestamp: timeText(startsAt),
      class: bounded(alertname),
      ...(component === '' ? {} : { component: bounded(component) }),
      custom_details: { ...annotations, ...labels },
    },
    links: linksOf(annotations, externalUrl),
    client: 'delivery-watch',
    ...(externalUrl === '' ? {} : { client_url: externalUrl }),
  };
}

/** Detects the documented response to an invalid routing key, for receivers that send it with status 2xx. */
export const errorOfPagerduty = (text: string): string | undefined =>
  /"status"\s*:\s*"invalid event"/.test(text) && text.includes("'routing_key'") ? 'invalid routing_key' : undefined;
