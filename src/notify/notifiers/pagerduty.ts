import type { Secret } from '../../kit/secret.ts';
import { fingerprintOf, type Notice, timeText } from '../notice.ts';
import type { BodyFormat } from './receiver.ts';
import { labelText, linksOf, SEVERITIES, shortened } from './words.ts';

/** PagerDuty's limit on the length of a summary (characters), applied to all texts. */
const MAX_TEXT = 1024;

/** Returns an event for the Events API v2. Repetitions are harmless, because an alert keeps its `dedup_key`. */
function eventOf(notice: Notice, externalUrl: string, routingKey: Secret | undefined) {
  const { status, labels, annotations, startsAt } = notice;
  const identity = { routing_key: routingKey?.reveal(), dedup_key: `delivery-watch/${fingerprintOf(labels)}` };
  if (status === 'resolved') return { ...identity, event_action: 'resolve' };
  const { alertname = '', account, severity, ...others } = labels;
  const text = [annotations.summary, annotations.description].filter(Boolean).join(' ');
  const source = account ?? 'delivery-watch';
  const component = labelText(others);
  return {
    ...identity,
    event_action: 'trigger',
    payload: {
      summary: shortened(`${alertname} (${source})${text === '' ? '' : `: ${text}`}`, MAX_TEXT),
      source: shortened(source, MAX_TEXT),
      severity: SEVERITIES.find(known => known === severity) ?? 'error',
      timestamp: timeText(startsAt),
      class: shortened(alertname, MAX_TEXT),
      ...(component === '' ? {} : { component: shortened(component, MAX_TEXT) }),
      custom_details: { ...annotations, ...labels },
    },
    links: linksOf(annotations, externalUrl),
    client: 'delivery-watch',
    ...(externalUrl === '' ? {} : { client_url: externalUrl }),
  };
}

export const pagerduty: BodyFormat = {
  about: 'PagerDuty Events API v2, one event per alert',
  maxAlerts: 1,
  url: 'https://events.pagerduty.com/v2/enqueue',
  key: 'the routing key of the PagerDuty integration',
  isSingle: true,
  bodyOf: ({ notices: [notice], externalUrl, secret }) =>
    JSON.stringify(notice && eventOf(notice, externalUrl, secret)),
  // The documented response to an invalid routing key, for receivers that send it with status 2xx.
  isError: text => /"status"\s*:\s*"invalid event"/.test(text) && text.includes("'routing_key'"),
};
