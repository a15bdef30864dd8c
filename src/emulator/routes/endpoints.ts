import type { EmulatedCredentials } from '../credentials.ts';
import { listUsers, resetToken, resetTokenById, rotateKeys } from './account.ts';
import { cancelCallback, retryCallback } from './callback.ts';
import { deleteEntries, deleteEntry, getEntry, listDlq, restartRuns, retryEntries } from './dlq.ts';
import { endpointsOf, type Route } from './endpoint.ts';
import { listEvents } from './events.ts';
import { getFlowControlKey, listFlowControl, pauseFlowControlKey } from './flow-control.ts';
import { listRuns } from './runs.ts';
import * as service from './service.ts';

/** Creates the routes of all emulated operations. The first matching route wins. */
export function createEndpoints(credentials: EmulatedCredentials): Route[] {
  return [
    ...endpointsOf('bearer', {
      'GET /v2/dlq': listDlq('messages'),
      'DELETE /v2/dlq': deleteEntries('messages'),
      'POST /v2/dlq/retry': retryEntries,
      'GET /v2/dlq/{dlqId}': getEntry,
      'DELETE /v2/dlq/{dlqId}': deleteEntry,
      'GET /v2/events': listEvents('events'),
      'GET /v2/logs': listEvents('logs'),
      'GET /v2/flowControl': listFlowControl,
      'GET /v2/flowControl/{+flowControlKey}': getFlowControlKey,
      'POST /v2/flowControl/{+flowControlKey}': pauseFlowControlKey,
      'GET /v2/globalParallelism': service.globalParallelism,
      'GET /v2/schedules': service.listSchedules,
      'GET /v2/schedules/{id}': service.getSchedule,
      'DELETE /v2/schedules/{id}': service.changeSchedule('remove'),
      'PATCH /v2/schedules/{id}/pause': service.changeSchedule('pause'),
      'PATCH /v2/schedules/{id}/resume': service.changeSchedule('resume'),
      'GET /v2/queues': service.listQueues,
      'GET /v2/queues/{name}': service.getQueue,
      'POST /v2/queues/{name}/pause': service.changeQueue('pause'),
      'POST /v2/queues/{name}/resume': service.changeQueue('resume'),
      'POST /v2/keys/rotate': rotateKeys(credentials),
      'GET /v2/keys/rotate': rotateKeys(credentials),
      'GET /v2/keys/rotate/{+flowControlKey}': getFlowControlKey,
      'GET /v2/workflows/dlq': listDlq('workflows'),
      'DELETE /v2/workflows/dlq': deleteEntries('workflows'),
      'POST /v2/workflows/dlq/restart': restartRuns,
      'POST /v2/workflows/dlq/resume': restartRuns,
      'DELETE /v2/workflows/dlq/callback/{dlqId}': cancelCallback,
      'POST /v2/workflows/dlq/callback/{dlqId}': retryCallback,
      'GET /v2/workflows/events': listRuns,
      'GET /v2/workflows/logs': listRuns,
    }),
    ...endpointsOf('account', {
      'GET /v2/qstash/users': listUsers(credentials),
      'GET /v2/qstash/stats/{id}': service.showStatistics,
      'POST /svc/user/rotatetoken': resetToken(credentials),
      'POST /qstash/user/rotatetoken': resetToken(credentials),
      'POST /v2/qstash/rotate-token/{id}': resetTokenById(credentials),
    }),
  ];
}
