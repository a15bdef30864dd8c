import type { EmulatedCredentials } from '../credentials.ts';
import { parametersOf } from '../paging.ts';
import type { EmulatorState } from '../state.ts';
import type { Handler } from './endpoint.ts';
import { getFlowControlKey } from './flow-control.ts';

const DAY_S = 86_400;

/** Returns an account with the limits of the free plan. Undocumented limits are invented. */
function record(state: EmulatorState, { accountId, login, token }: EmulatedCredentials) {
  const now = Math.floor(state.current().now / 1000);
  return {
    customer_id: login.username,
    id: accountId,
    token,
    active: true,
    state: 'active',
    last_plan_upgrade_time: now - 30 * DAY_S,
    max_message_size: 1_048_576,
    max_requests_per_day: 1000,
    max_requests_per_day_hard: 3000,
    max_endpoints_per_topic: 100,
    max_requests_per_second: state.dialect.requestsPerSecond,
    max_dlq_size: 1_000_000,
    max_retries: 999,
    max_topics: 1,
    max_schedules: 10,
    max_events_size: 10_000,
    max_dlq_retention_time_milis: 259_200_000,
    max_delay: 604_800,
    max_parallelism: 2,
    max_global_parallelism: 10,
    max_queues: 10,
    prod_pack_enabled: false,
    timeout: 900,
    type: 'free',
    reserved_type: '',
    reserved_price: 0,
    created_by: login.username,
    creation_time: now - 400 * DAY_S,
  };
}

export const resetToken =
  (credentials: EmulatedCredentials): Handler =>
  (state, _request, response) => {
    credentials.reset();
    response.json({ ...record(state, credentials), password: credentials.password });
  };

/** Newer version of the token reset, which returns a read-only token instead of a password. */
export const resetTokenById =
  (credentials: EmulatedCredentials): Handler =>
  (state, _request, response, id) => {
    if (id !== credentials.accountId) {
      response.status(404).json({ error: 'user not found' });
      return;
    }
    credentials.reset();
    response.json({
      ...record(state, credentials),
      read_only_token: credentials.readOnlyToken,
      region: 'eu-central-1',
      budget: 0,
      modifying_state: '',
      max_bandwidth_per_second: 0,
      prometheus_enabled: 'false',
      deletion_time: 0,
      enterprise: { enabled: false },
    });
  };

/** Replaces the current signing key with the next one. */
export const rotateKeys =
  (credentials: EmulatedCredentials): Handler =>
  (_state, _request, response) => {
    credentials.rotateKeys();
    response.json(credentials.signingKeys);
  };

/** "Get Flow Control Key" of the interface document, which does not say where the key goes: here, in a query parameter. */
export const keyInsteadOfKeys: Handler = (state, request, response) => {
  const parameters = parametersOf(request);
  const key = parameters.get('flowControlKey') || parameters.get('key');
  if (key) getFlowControlKey(state, request, response, key);
  else response.status(400).json({ error: 'flowControlKey is missing' });
};
