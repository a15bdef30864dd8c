import type { MessageSpan, TracedMessage } from '../../src/model/message-span.ts';

export const PUBLISHER = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };

/** Returns an ended attempt. */
export const ofAttempt = (span: Partial<MessageSpan> = {}, message: Partial<TracedMessage> = {}): MessageSpan => ({
  kind: 'attempt',
  message: {
    account: 'production',
    baseUrl: 'https://delivery.example.com/base',
    messageId: 'msg_1',
    publisher: PUBLISHER,
    traceId: PUBLISHER.traceId,
    deliveryId: 'd'.repeat(16),
    origin: 'https://api.example.org:8443',
    method: 'POST',
    ...message,
  },
  spanId: 'a'.repeat(16),
  start: 1_700_000_000_010,
  end: 1_700_000_000_050,
  result: 'delivered',
  status: 200,
  attempts: 1,
  isPartial: false,
  ...span,
});
