import { parametersOf } from '../paging.ts';
import type { ScheduleDetail } from '../schedules.ts';
import type { EmulatorState } from '../state.ts';
import type { Handler } from './endpoint.ts';

function scheduleRow({ destination, createdAt, paused, lastRunAt, nextRunAt, states }: ScheduleDetail): object {
  const { url, method, header, maxRetries, scheduleId, queueName, flowControlKey, label, labels } = destination.fields;
  return {
    ...{ scheduleId, cron: destination.cron, destination: url },
    ...{ createdAt, method, header, body: '{"source":"schedule"}', retries: maxRetries },
    ...{ queueName, flowControlKey, label, labels, isPaused: paused },
    lastScheduleTime: lastRunAt,
    nextScheduleTime: nextRunAt,
    lastScheduleStates: states.size > 0 ? Object.fromEntries(states) : undefined,
  };
}

export const listSchedules: Handler = (state, _request, response) => {
  response.json(state.schedules.list().map(scheduleRow));
};

export const getSchedule: Handler = (state, _request, response, id) => {
  const found = state.schedules.list().find(({ destination }) => destination.fields.scheduleId === id);
  if (found) response.json(scheduleRow(found));
  else response.status(404).json({ error: `schedule ${id} not found` });
};

/** Pauses, resumes or deletes a schedule. */
export const changeSchedule =
  (change: 'pause' | 'resume' | 'remove'): Handler =>
  (state, _request, response, id) => {
    if (state.schedules.change(id, change)) response.status(200).end();
    else response.status(404).json({ error: `schedule ${id} not found` });
  };

function queueRows({ queues, startedAt }: EmulatorState) {
  return [...queues.keys()].map(([name, { waiting, parallelism, paused }]) => ({
    ...{ name, createdAt: startedAt, updatedAt: startedAt, parallelism, lag: waiting, paused },
  }));
}

export const listQueues: Handler = (state, _request, response) => void response.json(queueRows(state));

export const getQueue: Handler = (state, _request, response, name) => {
  const found = queueRows(state).find(row => row.name === name);
  if (found) response.json(found);
  else response.status(404).json({ error: `queue ${name} not found` });
};

export const changeQueue =
  (change: 'pause' | 'resume'): Handler =>
  (state, _request, response, name) => {
    if (state.queues.change(name, { paused: change === 'pause' })) response.status(200).end();
    else response.status(404).json({ error: `queue ${name} not found` });
  };

export const globalParallelism: Handler = (state, _request, response) => {
  const parallelismCount = [...state.keys().values()].reduce((sum, { running }) => sum + running, 0);
  const isShown = parallelismCount > 0 || state.dialect.flowControlZeros === 'present';
  response.json({ parallelismMax: 100, ...(isShown && { parallelismCount }) });
};

const PERIODS = ['1h', '3h', '12h', '1d', '3d', '7d'];

/** Returns statistics of the account. `30d` is documented, but the service rejects it. */
export const showStatistics: Handler = (state, request, response) => {
  const period = parametersOf(request).get('period');
  if (period !== null && !PERIODS.includes(period)) {
    response.status(400).json({ error: `invalid period: ${period}` });
    return;
  }
  const { now } = state.current();
  const x = `${new Date(now).toISOString().slice(0, -1).replace('T', ' ')} +0000 UTC`;
  response.json({
    daily_requests: [{ x, y: state.requestsToday(), workflow_message: 0, workflow_run: 0 }],
    daily_qstash_messages: [],
    dlq_message_count: state.countDlq(),
    total_monthly_billing: 0,
  });
};
