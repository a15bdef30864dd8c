import type { EmulatedCredentials } from '../credentials.ts';
import type { KeyDetail } from '../flow-control.ts';
import { dlqIdOf, eventRow, type FailedMessage, LOG_STATES, type LoggedEvent, type LogState } from '../message.ts';
import { BadRequest, type Filters, matcher, page, pageRequest, parametersOf, wholeParameter } from '../paging.ts';
import type { EmulatorState } from '../state.ts';
import type { Position } from '../timeline.ts';
import type { ScheduleDetail } from '../workload.ts';
import type { EmulatedRun } from '../world.ts';
import { listUsers, resetToken, resetTokenById, rotateKeys } from './account.ts';
import {
  cancelCallback,
  deleteEntries,
  deleteEntry,
  getEntry,
  listDlq,
  restartRuns,
  retryCallback,
  retryEntries,
} from './dlq.ts';
import { endpointsOf, type Handler } from './endpoint.ts';

const PAGE = 10;

/** Returns the row of a failed run. Only this row contains the time of the next callback attempt. */
function failedRow({ run, message, responseStatus }: FailedMessage, position: Position, isShown: boolean) {
  const { callback, workflowRunId = '', workflowUrl = '', workflowCreatedAt = 0 } = run ?? {};
  const { labels, flowControlKey, header } = message.fields;
  const dlqId = dlqIdOf(position);
  return {
    ...{ workflowRunId, workflowUrl, workflowState: 'RUN_FAILED', workflowRunCreatedAt: workflowCreatedAt },
    ...{ workflowRunCompletedAt: position.time, steps: [], dlqId },
    ...(isShown && { labels, flowControlKey }),
    ...(callback &&
      isShown && {
        failureFunction: {
          messageId: callback.messageId,
          url: callback.url,
          state: callback.state,
          failStatus: responseStatus,
          failResponse: '',
          maxRetries: callback.maxRetries,
          dlqId,
          responseStatus: callback.responseStatus,
          nextDeliveryTime: callback.nextDeliveryTime,
          headers: header,
        },
      }),
  };
}

type RunRow = Omit<ReturnType<typeof failedRow>, 'dlqId' | 'workflowRunCompletedAt'>;

const otherRow = ({ state, createdAt, completedAt, ...run }: EmulatedRun) => ({
  ...run,
  workflowState: state ?? 'RUN_STARTED',
  workflowRunCreatedAt: createdAt,
  workflowRunCompletedAt: completedAt,
  steps: [],
});

const RUN_FILTERS: Filters<RunRow> = {
  workflowRunId: run => run.workflowRunId,
  workflowUrl: run => run.workflowUrl,
  workflowRuns: run => `${run.workflowRunId}@${run.workflowRunCreatedAt}`,
  label: run => run.labels,
  flowControlKey: run => run.flowControlKey,
  failureFunctionState: run => run.failureFunction?.state,
};

const placeOf = (run: RunRow) => `${run.workflowRunCreatedAt}-${run.workflowRunId}`;

function allRows(state: EmulatorState): RunRow[] {
  const { callbackState } = state.dialect;
  const rows: RunRow[] = state.runs().map(otherRow);
  state.current().workflows.forEach((entry, time, seq) => {
    rows.push(failedRow(entry, { time, seq }, callbackState !== 'absent'));
  });
  return rows.sort((a, b) => (placeOf(a) < placeOf(b) ? 1 : -1));
}

/** Lists runs, latest first. Date filters compare the time of creation: the documentation does not specify which time. */
const listRuns: Handler = (state, request, response) => {
  const parameters = parametersOf(request);
  const [from = 0, to = Number.POSITIVE_INFINITY, count = PAGE] = ['fromDate', 'toDate', 'count'].map(name =>
    wholeParameter(parameters, name),
  );
  const matches = matcher(parameters, RUN_FILTERS, state.dialect, (_, values) => values) ?? (() => true);
  const states = parameters.getAll('state');
  const hasState = (run: RunRow) => states.length === 0 || states.includes(run.workflowState);
  const cursor = Buffer.from(parameters.get('cursor') ?? '', 'base64url').toString();
  const rows = allRows(state).filter(run => {
    const { workflowRunCreatedAt: time } = run;
    const isLeft = time >= from && time <= to && (cursor === '' || placeOf(run) < cursor);
    return isLeft && matches(run, time, 0) && hasState(run);
  });
  const page = rows.slice(0, Math.min(PAGE, count));
  const last = rows.length > page.length ? page.at(-1) : undefined;
  const next = last ? Buffer.from(placeOf(last)).toString('base64url') : '';
  response.json({ cursor: next, runs: page });
};

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

const listSchedules: Handler = (state, _request, response) => {
  response.json(state.schedules.list().map(scheduleRow));
};

const getSchedule: Handler = (state, _request, response, id) => {
  const found = state.schedules.list().find(({ destination }) => destination.fields.scheduleId === id);
  if (found) response.json(scheduleRow(found));
  else response.status(404).json({ error: `schedule ${id} not found` });
};

const changeSchedule =
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

const getQueue: Handler = (state, _request, response, name) => {
  const found = queueRows(state).find(row => row.name === name);
  if (found) response.json(found);
  else response.status(404).json({ error: `queue ${name} not found` });
};

const changeQueue =
  (change: 'pause' | 'resume'): Handler =>
  (state, _request, response, name) => {
    if (state.queues.change(name, { paused: change === 'pause' })) response.status(200).end();
    else response.status(404).json({ error: `queue ${name} not found` });
  };

const globalParallelism: Handler = (state, _request, response) => {
  const parallelismCount = [...state.keys().values()].reduce((sum, { running }) => sum + running, 0);
  const isShown = parallelismCount > 0 || state.dialect.flowControlZeros === 'present';
  response.json({ parallelismMax: 100, ...(isShown && { parallelismCount }) });
};

const PERIODS = ['1h', '3h', '12h', '1d', '3d', '7d'];

/** Returns statistics of the account. `30d` is documented, but the service rejects it. */
const showStatistics: Handler = (state, request, response) => {
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

/** The filters after `queueName` are undocumented, but official clients send them. */
const FILTERS: Filters<LoggedEvent> = {
  messageId: event => event.message.messageId,
  state: event => event.state,
  url: event => event.message.fields.url,
  topicName: event => event.message.fields.topicName,
  scheduleId: event => event.message.fields.scheduleId,
  queueName: event => event.message.fields.queueName,
  messageIds: event => event.message.messageId,
  label: event => event.message.fields.labels,
  callerIp: event => event.message.callerIP,
  flowControlKey: event => event.message.fields.flowControlKey,
  host: event => URL.parse(event.message.fields.url)?.host,
  path: event => URL.parse(event.message.fields.url)?.pathname,
};

const STATE_NAMES: Readonly<Record<string, readonly LogState[]>> = {
  ...Object.fromEntries(LOG_STATES.map(state => [state.toUpperCase(), [state]])),
  IN_PROGRESS: ['active', 'retry', 'error'],
  CANCELED: ['cancelled'],
};

function expand(name: string, values: readonly string[]): readonly string[] {
  if (name !== 'state') return values;
  return values.flatMap(value => {
    const named = STATE_NAMES[value.toUpperCase()];
    if (!named) throw new BadRequest(`invalid state: it must be one of ${Object.keys(STATE_NAMES).join(', ')}`);
    return named;
  });
}

/** Lists visible events. `list`: name of the list and end of its path. */
const listEvents =
  (list: 'events' | 'logs'): Handler =>
  (state, request, response) => {
    const { dialect, logView } = state;
    if (dialect.eventPaths !== 'both' && dialect.eventPaths !== list) {
      response.status(404).json({ error: `not found: ${request.path}` });
      return;
    }
    const parameters = parametersOf(request);
    const defaults = { count: dialect.eventsMost, order: 'latestFirst' } as const;
    const { count, range } = pageRequest(parameters, defaults, dialect);
    const { log, now } = state.current();
    const asked = { count, range: { ...range, to: Math.min(range.to, logView.until(now)) } };
    const matches = matcher(parameters, FILTERS, dialect, expand);
    const unlisted = logView.unlisted(now);
    const found = page(
      [log],
      asked,
      unlisted ? (event, time, seq) => !unlisted(event, time) && (!matches || matches(event, time, seq)) : matches,
      { copies: logView.copies, repeats: dialect.cursorSeam === 'repeats' },
    );
    const rows = found.rows.map(({ value, time }) => eventRow(value, time, dialect));
    const cursor = found.cursor ?? (dialect.lastCursor === 'empty' ? '' : undefined);
    response.json({ cursor, [list]: rows });
  };

/** Returns a key as a row. `size`: field name of its waitlist size. */
export function keyRow(
  { dialect }: Pick<EmulatorState, 'dialect'>,
  flowControlKey: string,
  key: KeyDetail,
  size: string,
): object {
  const { parallelism, rate, period, running, started } = key;
  const newer = {
    parallelismMax: parallelism ?? 0,
    parallelismCount: running,
    rateMax: rate ?? 0,
    rateCount: rate === undefined ? 0 : started,
    ratePeriod: rate === undefined ? 0 : (period ?? 1),
    // In seconds, unlike the other times of the data API.
    ratePeriodStart: rate === undefined ? 0 : Math.floor(key.periodStart / 1000),
    isPaused: key.paused,
    isPinnedParallelism: key.isPinned ?? false,
    isPinnedRate: false,
  };
  const row = { flowControlKey, [size]: key.waiting, ...(dialect.flowControlFields === 'all' ? newer : {}) };
  if (dialect.flowControlZeros === 'present') return row;
  return Object.fromEntries(Object.entries(row).filter(([name, value]) => name === 'flowControlKey' || value));
}

const listFlowControl: Handler = (state, _request, response) => {
  response.json({ flowControls: [...state.keys()].map(([name, key]) => keyRow(state, name, key, 'waitListSize')) });
};

const getFlowControlKey: Handler = (state, _request, response, name) => {
  const { flowControlKeySize, idleKey } = state.dialect;
  const key = state.keys().get(name);
  const isIdle = key?.waiting === 0 && key.running === 0;
  if (key && !(isIdle && idleKey === 'missing')) response.json(keyRow(state, name, key, flowControlKeySize));
  else response.status(404).json({ error: 'Flow Control key not found' });
};

/** `POST /v2/flowControl/{key}/pause` and `/resume`. */
const pauseFlowControlKey: Handler = (state, _request, response, path) => {
  const [, name = '', action] = /^(.+)\/(pause|resume)$/s.exec(path) ?? [];
  if (action === undefined) response.status(404).json({ error: `not found: ${path}` });
  else if (state.flow.change(name, { paused: action === 'pause' })) response.status(200).end();
  else response.status(400).json({ error: 'Flow Control key not found' });
};

/** Creates the routes of all emulated operations. The first matching route wins. */
export function createEndpoints(credentials: EmulatedCredentials) {
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
      'GET /v2/globalParallelism': globalParallelism,
      'GET /v2/schedules': listSchedules,
      'GET /v2/schedules/{id}': getSchedule,
      'DELETE /v2/schedules/{id}': changeSchedule('remove'),
      'PATCH /v2/schedules/{id}/pause': changeSchedule('pause'),
      'PATCH /v2/schedules/{id}/resume': changeSchedule('resume'),
      'GET /v2/queues': (state, _request, response) => void response.json(queueRows(state)),
      'GET /v2/queues/{name}': getQueue,
      'POST /v2/queues/{name}/pause': changeQueue('pause'),
      'POST /v2/queues/{name}/resume': changeQueue('resume'),
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
      'GET /v2/qstash/stats/{id}': showStatistics,
      'POST /svc/user/rotatetoken': resetToken(credentials),
      'POST /qstash/user/rotatetoken': resetToken(credentials),
      'POST /v2/qstash/rotate-token/{id}': resetTokenById(credentials),
    }),
  ];
}
