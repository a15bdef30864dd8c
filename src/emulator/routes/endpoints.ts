import type { Credentials } from '../credentials.ts';
import type { EmulatorState } from '../state.ts';
import { resetToken, resetTokenById } from './account.ts';
import { cancelCallback, retryCallback } from './callback.ts';
import { listDlq } from './dlq.ts';
import { deleteEntries, deleteEntry, getEntry, restartRuns, retryEntries, retryEntry } from './dlq-entry.ts';
import type { Endpoint } from './endpoint.ts';
import { listEvents } from './events.ts';
import { getFlowControlKey, globalParallelism, listFlowControl, pauseFlowControlKey } from './flow-control.ts';
import { keyInsteadOfKeys, rotateKeys } from './signing-keys.ts';
import { listRuns } from './workflow-runs.ts';

type Row = readonly [method: Endpoint['method'], path: string, answer: Endpoint['answer']];

/** Every operation that is emulated; where two fit, the first counts. */
export function createEndpoints(state: EmulatorState, credentials: Credentials): Endpoint[] {
  const data: readonly Row[] = [
    ['GET', '/v2/dlq', listDlq(state, 'messages')],
    ['DELETE', '/v2/dlq', deleteEntries(state, 'messages')],
    ['POST', '/v2/dlq/retry', retryEntries(state)],
    ['POST', '/v2/dlq/retry/{dlqId}', retryEntry(state)],
    ['GET', '/v2/dlq/{dlqId}', getEntry(state)],
    ['DELETE', '/v2/dlq/{dlqId}', deleteEntry(state)],
    ['GET', '/v2/events', listEvents(state, 'eventsList')],
    ['GET', '/v2/logs', listEvents(state, 'logsList')],
    ['GET', '/v2/flowControl', listFlowControl(state)],
    ['GET', '/v2/flowControl/{+flowControlKey}', getFlowControlKey(state)],
    ['POST', '/v2/flowControl/{+flowControlKey}', pauseFlowControlKey(state)],
    ['GET', '/v2/globalParallelism', globalParallelism(state)],
    ['POST', '/v2/keys/rotate', rotateKeys(credentials)],
    ['GET', '/v2/keys/rotate', keyInsteadOfKeys(state)],
    ['GET', '/v2/keys/rotate/{+flowControlKey}', getFlowControlKey(state)],
    ['GET', '/v2/workflows/dlq', listDlq(state, 'workflows')],
    ['DELETE', '/v2/workflows/dlq', deleteEntries(state, 'workflows')],
    ['POST', '/v2/workflows/dlq/restart', restartRuns(state)],
    ['POST', '/v2/workflows/dlq/resume', restartRuns(state)],
    ['DELETE', '/v2/workflows/dlq/callback/{dlqId}', cancelCallback(state)],
    ['POST', '/v2/workflows/dlq/callback/{dlqId}', retryCallback(state)],
    ['GET', '/v2/workflows/dlq/{dlqId}', getEntry(state)],
    ['DELETE', '/v2/workflows/dlq/{dlqId}', deleteEntry(state)],
    ['GET', '/v2/workflows/events', listRuns(state)],
    ['GET', '/v2/workflows/logs', listRuns(state)],
  ];
  const account: readonly Row[] = [
    ['POST', '/svc/user/rotatetoken', resetToken(state, credentials)],
    ['POST', '/v2/qstash/rotate-token/{id}', resetTokenById(state, credentials)],
  ];
  const endpoint =
    (login: Endpoint['login']) =>
    ([method, path, answer]: Row): Endpoint => ({ method, path, login, answer });
  return [...data.map(endpoint('bearer')), ...account.map(endpoint('account'))];
}
