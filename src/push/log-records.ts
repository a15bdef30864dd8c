import type { ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer';
import { hashedId } from '../kit/hash.ts';
import { serverAttributes } from '../kit/server-attributes.ts';
import { traceIdOf } from '../model/lifecycle-trace.ts';
import type { LogRecord, RecordedLetter } from '../model/log-record.ts';
import { LATEST } from './otlp-metrics.ts';
import type { StoredRecord } from './record-queue.ts';

type ReadableLogRecord = Parameters<typeof ProtobufLogsSerializer.serializeRequest>[0][number];
type Value = string | number | undefined;

/** Severities of OpenTelemetry's log data model: the lowest number of each. */
const SEVERITIES = { INFO: 9, WARN: 13, ERROR: 17 } as const;
type Severity = keyof typeof SEVERITIES;

/** Names of attributes, of OpenTelemetry's semantic conventions 1.44 where those have one, which is in development. */
const ATTRIBUTES = {
  uid: 'log.record.uid',
  system: 'messaging.system',
  messageId: 'messaging.message.id',
  destination: 'messaging.destination.name',
  method: 'http.request.method',
  status: 'http.response.status_code',
  error: 'error.type',
} as const;

/** What the records of all accounts have in common: one object of each, as they are grouped by it. */
interface Origin {
  readonly resource: ReadableLogRecord['resource'];
  readonly scope: ReadableLogRecord['instrumentationScope'];
}

/** What happens to messages is the service's; the rest is the agent's own. */
export interface LogOrigins {
  readonly messages: Origin;
  readonly agent: Origin;
}

/** What a record says. */
interface Said {
  readonly event: string;
  readonly severity: Severity;
  readonly messageId?: string | undefined;
  readonly attributes: Readonly<Record<string, Value>>;
}

/** 0 where the time is not known, or later than there is room for: receivers then show when the record was made. */
const hrTime = (ms = 0): [number, number] =>
  ms <= LATEST ? [Math.floor(ms / 1000), Math.round((ms % 1000) * 1e6)] : [0, 0];
const textOf = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());

/** Where a message was to go: never the path, which may hold a secret. */
function addressOf(origin: string | undefined): Readonly<Record<string, Value>> {
  if (origin === undefined || !URL.canParse(origin)) return {};
  const { 'url.full': _, ...address } = serverAttributes(origin, '');
  return { ...address, 'url.scheme': new URL(origin).protocol.slice(0, -1) };
}

/** HTTP status or a closed word. */
const errorOf = (status: number | undefined) =>
  status === undefined ? undefined : status === 0 ? 'no_answer' : String(status);

function letterAttributes(letter: RecordedLetter | undefined): Said['attributes'] {
  if (!letter) return {};
  const { dlqId, messageId, origin, method, status, topic, queue, schedule, workflowRunId } = letter;
  const address = addressOf(origin);
  return {
    [ATTRIBUTES.system]: 'message_delivery',
    [ATTRIBUTES.messageId]: messageId,
    [ATTRIBUTES.destination]: topic ?? queue ?? address['server.address'],
    ...address,
    [ATTRIBUTES.method]: method,
    [ATTRIBUTES.status]: status || undefined,
    [ATTRIBUTES.error]: errorOf(status),
    'delivery.dlq.id': dlqId,
    'delivery.queue': queue,
    'delivery.schedule': schedule,
    'delivery.workflow.run_id': workflowRunId,
  };
}

const QUIET_OUTCOMES: readonly string[] = ['planned', 'confirmed', 'superseded', 'gone', 'not_in_progress'];
const LOUD_ALERTS: readonly string[] = ['critical', 'error', 'page'];

function alertSeverity(status: string, severity: string | undefined): Severity {
  if (status === 'resolved' || severity === 'info') return 'INFO';
  return severity !== undefined && LOUD_ALERTS.includes(severity) ? 'ERROR' : 'WARN';
}

function cancelSaid(record: Extract<LogRecord, { kind: 'cancel_ended' }>): Said {
  const { action, rule, mode, outcome, reason, target } = record;
  const { dlqId, messageId, workflowRunId, url, workflowUrl, responseStatus } = target;
  return {
    event: 'delivery.auto_cancel.ended',
    severity: QUIET_OUTCOMES.includes(outcome) ? 'INFO' : 'WARN',
    messageId,
    attributes: {
      ...addressOf(URL.parse(workflowUrl ?? url ?? '')?.origin),
      [ATTRIBUTES.system]: 'message_delivery',
      [ATTRIBUTES.messageId]: messageId,
      [ATTRIBUTES.status]: responseStatus || undefined,
      'delivery.dlq.id': dlqId,
      'delivery.workflow.run_id': workflowRunId,
      'delivery.auto_cancel.action': action,
      'delivery.auto_cancel.rule': rule,
      'delivery.auto_cancel.mode': mode,
      'delivery.auto_cancel.outcome': outcome,
      'delivery.auto_cancel.reason': reason,
    },
  };
}

function said(record: LogRecord): Said {
  switch (record.kind) {
    case 'dlq_entered': {
      const { letter } = record;
      return {
        event: 'delivery.dlq.entered',
        severity: 'ERROR',
        messageId: letter?.messageId,
        attributes: letterAttributes(letter),
      };
    }
    case 'dlq_left': {
      const { letter, reason, since } = record;
      return {
        event: 'delivery.dlq.left',
        severity: reason === 'expired' ? 'WARN' : 'INFO',
        messageId: letter?.messageId,
        attributes: {
          ...letterAttributes(letter),
          'delivery.dlq.left_reason': reason,
          'delivery.dlq.since': textOf(letter?.enteredAt ?? since),
        },
      };
    }
    case 'cancel_ended':
      return cancelSaid(record);
    case 'alert': {
      const { status, labels, startsAt } = record;
      const { alertname, account: _, ...others } = labels;
      const own = Object.entries(others).map(([name, value]) => [`delivery.alert.label.${name}`, value] as const);
      return {
        event: `delivery.alert.${status}`,
        severity: alertSeverity(status, labels.severity),
        attributes: {
          'delivery.alert.name': alertname,
          'delivery.alert.starts_at': textOf(startsAt),
          ...Object.fromEntries(own),
        },
      };
    }
    case 'gap': {
      const { from, to } = record;
      return {
        event: 'delivery.event_log.gap',
        severity: 'WARN',
        attributes: { 'delivery.gap.from': textOf(from), 'delivery.gap.to': textOf(to) },
      };
    }
  }
}

/**
 * A record of an account as it is sent: an event, which by OpenTelemetry's semantic conventions has a name, a severity and
 * attributes, and no body. Its trace is that of the message, whether or not that is sent; of spans it knows nothing.
 */
export function toLogRecord(account: string, record: StoredRecord, origins: LogOrigins): ReadableLogRecord {
  const isOfMessage = record.kind === 'dlq_entered' || record.kind === 'dlq_left';
  const { resource, scope } = isOfMessage ? origins.messages : origins.agent;
  const { event, severity, messageId, attributes } = said(record);
  const all: Record<string, Value> = {
    [ATTRIBUTES.uid]: hashedId(['log', account, record.id], 32),
    'delivery.account': account || undefined,
    ...attributes,
  };
  return {
    hrTime: hrTime(record.at),
    hrTimeObserved: hrTime(record.seenAt),
    eventName: event,
    severityText: severity,
    severityNumber: SEVERITIES[severity],
    attributes: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)),
    droppedAttributesCount: 0,
    resource,
    instrumentationScope: scope,
    ...(messageId === undefined
      ? {}
      : { spanContext: { traceId: traceIdOf(account, messageId), spanId: '', traceFlags: 0 } }),
  };
}
