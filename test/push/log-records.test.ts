import { ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { describe, expect, it } from 'vitest';
import { traceIdOf } from '../../src/model/lifecycle-trace.ts';
import type { LogRecord, RecordedLetter } from '../../src/model/log-record.ts';
import { toLogRecord } from '../../src/push/log-records.ts';
import { decodeLogs } from '../support/otlp-log-receiver.ts';

const AT = Date.UTC(2026, 5, 1, 12);
const SEEN = AT + 30_500;

const origin = (name: string) => ({
  resource: resourceFromAttributes({ 'service.name': name }),
  scope: { name: 'delivery-watch', version: '1' },
});
const ORIGINS = { messages: origin('message-delivery'), agent: origin('delivery-watch') };

const LETTER: RecordedLetter = {
  dlqId: '1-0',
  messageId: 'msg_1',
  enteredAt: AT,
  origin: 'https://api.example.com:8443',
  method: 'POST',
  status: 500,
  topic: undefined,
  queue: 'payments',
  schedule: 'scd_1',
  workflowRunId: undefined,
};
const CANCEL = {
  kind: 'cancel_ended',
  action: 'act_1',
  rule: 'nightly',
  mode: 'enforce',
  outcome: 'confirmed',
  reason: 'read_canceled',
  target: {
    account: 'a',
    id: '1-0',
    dlqId: '1-0',
    messageId: 'msg_1',
    workflowRunId: 'wfr_1',
    url: 'https://user:SECRET@api.example.com/SECRET?SECRET',
    workflowUrl: undefined,
    responseStatus: 502,
    episode: 'e',
  },
} as const;

/** What OpenTelemetry's own definitions read of it: name, severity, when it was and when it was seen, attributes. */
function told(record: Omit<LogRecord, 'id' | 'at'> & Partial<LogRecord>) {
  const whole = { id: 'x/1', at: undefined, ...record, seenAt: SEEN } as LogRecord & { seenAt: number };
  const body = ProtobufLogsSerializer.serializeRequest([toLogRecord('a', whole, ORIGINS)]) ?? new Uint8Array();
  const [log] = decodeLogs(body);
  const { 'log.record.uid': uid, ...attributes } = log?.attributes ?? {};
  expect(uid).toMatch(/^[0-9a-f]{32}$/);
  return { ...log, attributes };
}

describe('a log record', () => {
  it('has no time where the service tells one that OTLP has no room for', () => {
    const letter = { ...LETTER, dlqId: '99999999999999-1', enteredAt: 99_999_999_999_999 };
    expect(told({ kind: 'dlq_entered', letter, at: letter.enteredAt })).toMatchObject({ at: 0, observed: SEEN });
  });

  it('says of a dead letter that came where it was to go and why it is dead, and leads to its trace', () => {
    expect(told({ kind: 'dlq_entered', at: AT, letter: LETTER })).toEqual({
      service: 'message-delivery',
      event: 'delivery.dlq.entered',
      severity: 'ERROR ERROR',
      at: AT,
      observed: SEEN,
      traceId: traceIdOf('a', 'msg_1'),
      spanId: '',
      hasBody: false,
      attributes: {
        'delivery.account': 'a',
        'messaging.system': 'message_delivery',
        'messaging.message.id': 'msg_1',
        'messaging.destination.name': 'payments',
        'server.address': 'api.example.com',
        'server.port': 8443,
        'url.scheme': 'https',
        'http.request.method': 'POST',
        'http.response.status_code': 500,
        'error.type': '500',
        'delivery.dlq.id': '1-0',
        'delivery.queue': 'payments',
        'delivery.schedule': 'scd_1',
      },
    });
    const { attributes } = told({ kind: 'dlq_entered', letter: { ...LETTER, status: 0 } });
    expect([attributes['error.type'], 'http.response.status_code' in attributes]).toEqual(['no_answer', false]);
  });

  it('says of one that left why, and nothing that is not known', () => {
    expect(told({ kind: 'dlq_left', reason: 'expired', since: AT, letter: undefined })).toEqual({
      service: 'message-delivery',
      event: 'delivery.dlq.left',
      severity: 'WARN WARN',
      at: 0,
      observed: SEEN,
      traceId: '',
      spanId: '',
      hasBody: false,
      attributes: {
        'delivery.account': 'a',
        'delivery.dlq.left_reason': 'expired',
        'delivery.dlq.since': '2026-06-01T12:00:00.000Z',
      },
    });
    expect(told({ kind: 'dlq_left', reason: 'removed', since: AT, letter: LETTER })).toMatchObject({
      severity: 'INFO INFO',
      traceId: traceIdOf('a', 'msg_1'),
      attributes: { 'delivery.dlq.id': '1-0', 'messaging.message.id': 'msg_1' },
    });
  });

  it('says how a cancel ended, and never an address', () => {
    const confirmed = told({ ...CANCEL, at: AT });
    expect(confirmed).toMatchObject({
      service: 'delivery-watch',
      event: 'delivery.auto_cancel.ended',
      severity: 'INFO INFO',
      at: AT,
      traceId: traceIdOf('a', 'msg_1'),
      attributes: {
        'server.address': 'api.example.com',
        'http.response.status_code': 502,
        'delivery.dlq.id': '1-0',
        'delivery.workflow.run_id': 'wfr_1',
        'delivery.auto_cancel.action': 'act_1',
        'delivery.auto_cancel.rule': 'nightly',
        'delivery.auto_cancel.mode': 'enforce',
        'delivery.auto_cancel.outcome': 'confirmed',
        'delivery.auto_cancel.reason': 'read_canceled',
      },
    });
    expect(JSON.stringify(confirmed)).not.toContain('SECRET');
    expect(told({ ...CANCEL, outcome: 'gave_up' }).severity).toBe('WARN WARN');
  });

  it.each([
    ['firing', 'critical', 'ERROR ERROR'],
    ['firing', 'warning', 'WARN WARN'],
    ['firing', 'info', 'INFO INFO'],
    ['resolved', 'critical', 'INFO INFO'],
  ] as const)('has, of an alert that is %s with severity %s, the severity %s', (status, severity, expected) => {
    const labels = { alertname: 'DlqGrowing', account: 'a', severity };
    expect(told({ kind: 'alert', at: AT + 1, status, labels, startsAt: AT })).toMatchObject({
      service: 'delivery-watch',
      event: `delivery.alert.${status}`,
      severity: expected,
      at: AT + 1,
      attributes: {
        'delivery.account': 'a',
        'delivery.alert.name': 'DlqGrowing',
        'delivery.alert.starts_at': '2026-06-01T12:00:00.000Z',
        'delivery.alert.label.severity': severity,
      },
    });
  });

  it('says between which times events of the log may be missing', () => {
    expect(told({ kind: 'gap', from: AT, to: SEEN })).toMatchObject({
      event: 'delivery.event_log.gap',
      severity: 'WARN WARN',
      at: 0,
      attributes: { 'delivery.gap.from': '2026-06-01T12:00:00.000Z', 'delivery.gap.to': '2026-06-01T12:00:30.500Z' },
    });
  });
});
