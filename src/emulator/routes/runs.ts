import { dlqIdOf, type FailedMessage } from '../message.ts';
import { BadRequest, type Filters, matcher, parametersOf } from '../paging.ts';
import type { EmulatedRun } from '../runs.ts';
import type { EmulatorState } from '../state.ts';
import type { Position } from '../timeline.ts';
import type { Handler } from './endpoint.ts';

/** A row of the list, with its values for filters. */
interface ListedRun {
  readonly id: string;
  readonly createdAt: number;
  readonly state: string;
  readonly url: string | undefined;
  readonly labels?: readonly string[] | undefined;
  readonly flowControlKey?: string | undefined;
  readonly callbackState?: string | undefined;
  readonly row: object;
}

const FILTERS: Filters<ListedRun> = {
  workflowRunId: run => run.id,
  workflowUrl: run => run.url,
  workflowRuns: run => `${run.id}@${run.createdAt}`,
  label: run => run.labels,
  flowControlKey: run => run.flowControlKey,
  failureFunctionState: run => run.callbackState,
};

/** Maximum number of runs per page. */
const PAGE = 10;

/** Returns the run's row in the workflow log, the only place with the time of the next callback attempt. */
function runRow(entry: FailedMessage, position: Position, isShown: boolean): object {
  const run = entry.run;
  const { callback } = run ?? {};
  return {
    workflowRunId: run?.workflowRunId,
    workflowUrl: run?.workflowUrl,
    workflowState: 'RUN_FAILED',
    workflowRunCreatedAt: run?.workflowCreatedAt,
    workflowRunCompletedAt: position.time,
    steps: [],
    dlqId: dlqIdOf(position),
    ...(callback &&
      isShown && {
        failureFunction: {
          messageId: callback.messageId,
          url: callback.url,
          state: callback.state,
          failStatus: entry.responseStatus,
          failResponse: '',
          maxRetries: callback.maxRetries,
          dlqId: dlqIdOf(position),
          responseStatus: callback.responseStatus,
          nextDeliveryTime: callback.nextDeliveryTime,
          headers: entry.fields.header,
        },
      }),
  };
}

function failedRun(state: EmulatorState, entry: FailedMessage, position: Position): ListedRun {
  const { workflowRunId: id = '', workflowUrl, workflowCreatedAt = 0, callback } = entry.run ?? {};
  const { labels, flowControlKey } = entry.fields;
  const isShown = state.dialect.callbackState !== 'absent' && state.dialect.serviceFields === 'all';
  const row = runRow(entry, position, isShown);
  return {
    ...{ id, createdAt: workflowCreatedAt, state: 'RUN_FAILED', url: workflowUrl, labels, flowControlKey },
    callbackState: callback?.state,
    row,
  };
}

function otherRun(run: EmulatedRun): ListedRun {
  const { workflowRunId: id, workflowUrl: url, createdAt, completedAt, state = 'RUN_STARTED', label } = run;
  const labels = label === undefined ? undefined : [label];
  const times = { workflowRunCreatedAt: createdAt, workflowRunCompletedAt: completedAt };
  const row = { workflowRunId: id, workflowUrl: url, workflowState: state, ...times, steps: [], label, labels };
  return { id, createdAt, state, url, labels, row };
}

const placeOf = ({ createdAt, id }: ListedRun) => `${createdAt}-${id}`;

/** Lists runs, latest first. Date filters compare the time of creation, because the interface does not say which time. */
export const listRuns: Handler = (state, request, response) => {
  const parameters = parametersOf(request);
  const whole = (name: string) => {
    const text = parameters.get(name) || undefined;
    if (text !== undefined && !/^\d{1,15}$/.test(text))
      throw new BadRequest(`invalid ${name}: it must be a whole number`);
    return text === undefined ? undefined : Number(text);
  };
  const [from = 0, to = Number.POSITIVE_INFINITY, count = PAGE] = ['fromDate', 'toDate', 'count'].map(whole);
  const failed: ListedRun[] = [];
  state.current().workflows.forEach((entry, time, seq) => {
    failed.push(failedRun(state, entry, { time, seq }));
  });
  const matches = matcher(parameters, FILTERS, state.dialect, (_, values) => values);
  const states = parameters.getAll('state');
  const hasState = (run: ListedRun) => states.length === 0 || states.includes(run.state);
  const isPerPage = state.dialect.runsFilter === 'page';
  const cursor = parameters.get('cursor') || undefined;
  const rows = [...failed, ...state.runs().map(otherRun)]
    .filter(run => run.createdAt >= from && run.createdAt <= to)
    .filter(run => (matches?.(run, run.createdAt, 0) ?? true) && (isPerPage || hasState(run)))
    .sort((a, b) => (placeOf(a) < placeOf(b) ? 1 : -1))
    .filter(run => cursor === undefined || placeOf(run) < Buffer.from(cursor, 'base64url').toString());
  const page = rows.slice(0, Math.min(PAGE, count));
  const last = page.at(-1);
  const next = last && rows.length > page.length ? Buffer.from(placeOf(last)).toString('base64url') : '';
  response.json({ cursor: next, runs: page.filter(hasState).map(({ row }) => row) });
};
