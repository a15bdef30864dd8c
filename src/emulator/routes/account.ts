import type { EmulatedCredentials } from '../credentials.ts';
import { type EmulatorState, MAX_REQUESTS_PER_DAY } from '../state.ts';
import type { Handler } from './endpoint.ts';

const DAY_S = 86_400;

/** Returns an account with limits that suffice for the workload. Undocumented limits are invented. */
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
    max_requests_per_day: MAX_REQUESTS_PER_DAY,
    max_requests_per_day_hard: 3 * MAX_REQUESTS_PER_DAY,
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
    max_global_parallelism: 100,
    max_queues: 10,
    prod_pack_enabled: false,
    timeout: 900,
    type: 'paid',
    reserved_type: '',
    reserved_price: 0,
    created_by: login.username,
    creation_time: now - 400 * DAY_S,
  };
}

const newerRecord = (state: EmulatorState, credentials: EmulatedCredentials) => ({
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
    response.json(newerRecord(state, credentials));
  };

export const listUsers =
  (credentials: EmulatedCredentials): Handler =>
  (state, _request, response) =>
    void response.json([newerRecord(state, credentials)]);

/** Rotates the signing keys, as the real service may do. The agent must never send this. */
export const rotateKeys =
  (credentials: EmulatedCredentials): Handler =>
  (_state, _request, response) => {
    response.json(credentials.rotateKeys());
  };
