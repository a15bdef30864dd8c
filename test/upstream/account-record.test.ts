import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseResetResponse } from '../../src/upstream/client.ts';

const read = (body: unknown) => parseResetResponse(Buffer.from(JSON.stringify(body)));

describe('account record', () => {
  it('the account record contains the redacted credentials, and the limits in base units', () => {
    const answer = read({
      token: 'token-canary',
      password: 'password-canary',
      active: true,
      state: 'active',
      max_message_size: 1_048_576,
      max_requests_per_second: 100,
      max_delay: 604_800,
      timeout: 900,
      max_retries: 0,
      max_dlq_size: 2_147_483_647,
      max_queues: -1,
      max_topics: '5',
      max_dlq_retention_time_milis: 2_592_000_000,
      type: 'paid',
      reserved_type: 'svc_enterprise_1m',
    });
    expect([answer?.token.reveal(), answer?.password?.reveal()]).toEqual(['token-canary', 'password-canary']);
    expect(JSON.stringify(answer)).not.toContain('canary');
    expect(answer?.record).toEqual({
      plan: 'svc_enterprise_1m',
      state: 'active',
      limits: {
        message_size_bytes: 1_048_576,
        requests_per_second: 100,
        delay_seconds: 604_800,
        request_timeout_seconds: 900,
        retries: 0,
      },
      dlqRetentionSeconds: 2_592_000,
    });
  });

  it('the newer form of the account record is parsed: no password, a second token, additional states', () => {
    const answer = read({ token: 't', read_only_token: 'r', state: 'suspended', type: 'free', reserved_type: '' });
    expect(answer).toMatchObject({ password: undefined });
    expect(answer?.record).toMatchObject({ plan: 'free', state: 'suspended', limits: {} });
  });

  it('the state of the account is derived from `active` if the record contains no state', () => {
    expect(read({ token: 't', active: false })?.record.state).toBe('passive');
    expect(read({ token: 't' })?.record.state).toBeUndefined();
  });

  it('an account record may have trailing spaces and a leading byte order mark', () =>
    expect(parseResetResponse(Buffer.from('\ufeff{"token":"t"}      '))?.token.reveal()).toBe('t'));

  it.each(['', '{"token":"t"', '[]', 'null', '"t"', '{}', '{"token":7}', '{"token":""}', '{"token":"two words"}'])(
    'an account record is parsed as undefined if it contains no token that can be sent: %s',
    text => expect(parseResetResponse(Buffer.from(text))).toBeUndefined(),
  );

  it('parsing an account record shortens long values and never throws', () => {
    expect(read({ token: 't', type: 'x'.repeat(1000) })?.record.plan).toHaveLength(64);
    fc.assert(
      fc.property(fc.record({ token: fc.constant('t') }, { noNullPrototype: true }), fc.object(), (token, more) => {
        read({ ...more, ...token });
        return true;
      }),
    );
  });
});
