import { dlqIdOf, type FailedMessage } from '../message.ts';
import { BadRequest, type Filters, matcher, parametersOf } from '../paging.ts';
import type { EmulatedRun } from '../runs.ts';
import type { EmulatorState } from '../state.ts';
import type { Position } from '../timeline.ts';
import type { Handler } from './endpoint.ts';

/** Maximum number of runs per page. */
const PAGE = 10;

/** Returns the row of a failed run, the only place with the time of the next callback attempt. */
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
  ...{
    ...run,
    workflowState: state ?? 'RUN_STARTED',
    workflowRunCreatedAt: createdAt,
    workflowRunCompletedAt: completedAt,
    steps: [],
  },
});

const FILTERS: Filters<RunRow> = {
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

/** Lists runs, latest first. Date filters compare the time of creation, because the interface does not say which time. */
export const listRuns: Handler = (state, request, response) => {
  const parameters = parametersOf(request);
  const [from = 0, to = Number.POSITIVE_INFINITY, count = PAGE] = ['fromDate', 'toDate', 'count'].map(name => {
    const text = parameters.get(name) || undefined;
    if (text !== undefined && !/^\d{1,15}$/.test(text)) throw new BadRequest(`invalid ${name}`);
    return text === undefined ? undefined : Number(text);
  });
  const matches = matcher(parameters, FILTERS, state.dialect, (_, values) => values) ?? (() => true);
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
