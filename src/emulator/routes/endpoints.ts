import type { EmulatedCredentials } from '../credentials.ts';
import { keyInsteadOfKeys, resetToken, resetTokenById, rotateKeys } from './account.ts';
import { cancelCallback, retryCallback } from './callback.ts';
import {
  deleteEntries,
  deleteEntry,
  getEntry,
  listDlq,
  listRuns,
  restartRuns,
  retryEntries,
  retryEntry,
} from './dlq.ts';
import { endpointsOf, type Route } from './endpoint.ts';
import { listEvents } from './events.ts';
import { getFlowControlKey, globalParallelism, listFlowControl, pauseFlowControlKey } from './flow-control.ts';

/** Creates the routes of all emulated operations. The first matching route wins. */
export function createEndpoints(credentials: EmulatedCredentials): Route[] {
  return [
    ...endpointsOf('bearer', {
      'GET /v2/dlq': listDlq('messages'),
      'DELETE /v2/dlq': deleteEntries('messages'),
      'POST /v2/dlq/retry': retryEntries,
      'POST /v2/dlq/retry/{dlqId}': retryEntry,
      'GET /v2/dlq/{dlqId}': getEntry,
      'DELETE /v2/dlq/{dlqId}': deleteEntry,
      'GET /v2/events': listEvents('eventsList'),
      'GET /v2/logs': listEvents('logsList'),
      'GET /v2/flowControl': listFlowControl,
      'GET /v2/flowControl/{+flowControlKey}': getFlowControlKey,
      'POST /v2/flowControl/{+flowControlKey}': pauseFlowControlKey,
      'GET /v2/globalParallelism': globalParallelism,
      'POST /v2/keys/rotate': rotateKeys(credentials),
      'GET /v2/keys/rotate': keyInsteadOfKeys,
      'GET /v2/keys/rotate/{+flowControlKey}': getFlowControlKey,
      'GET /v2/workflows/dlq': listDlq('workflows'),
      'DELETE /v2/workflows/dlq': deleteEntries('workflows'),
      'POST /v2/workflows/dlq/restart': restartRuns,
      'POST /v2/workflows/dlq/resume': restartRuns,
      'DELETE /v2/workflows/dlq/callback/{dlqId}': cancelCallback,
      'POST /v2/workflows/dlq/callback/{dlqId}': retryCallback,
      'GET /v2/workflows/dlq/{dlqId}': getEntry,
      'DELETE /v2/workflows/dlq/{dlqId}': deleteEntry,
      'GET /v2/workflows/events': listRuns,
      'GET /v2/workflows/logs': listRuns,
    }),
    ...endpointsOf('account', {
      'POST /svc/user/rotatetoken': resetToken(credentials),
      'POST /qstash/user/rotatetoken': resetToken(credentials),
      'POST /v2/qstash/rotate-token/{id}': resetTokenById(credentials),
    }),
  ];
}
