import { expect, it } from 'vitest';
import {
  dlqList,
  eventList,
  FILTERS,
  filterError,
  KEY_LIST,
  queryOf,
  runList,
  runQueryOf,
  SCHEDULE_LIST,
} from '../../src/lookup/lists.ts';
import type { CallbackState, DlqEntry } from '../../src/model/message.ts';
import type { ServiceSchedule } from '../../src/model/service.ts';
import { DLQ_FILTERS } from '../../src/upstream/api.ts';

const ENTRY: DlqEntry = {
  id: '1763650000000-7',
  dlqId: '1763650000000-7',
  messageId: 'msg_1',
  createdAt: Date.parse('2026-11-20T14:46:35Z'),
  enteredAt: Date.parse('2026-11-20T14:46:40Z'),
  url: 'https://user:secret@api.example.com/orders?token=secret',
  method: 'POST',
  state: 'failed',
  topic: undefined,
  queue: 'payments',
  schedule: undefined,
  flowControlKey: undefined,
  api: undefined,
  labels: ['nightly', 'eu'],
  responseStatus: 503,
  errorClass: 'errorclass',
  workflowRunId: undefined,
  workflowUrl: undefined,
  failureCallbackUrl: 'https://api.example.com/failed?key=secret',
  callbackState: 'in_progress',
  maxRetries: 3,
};

const jsonOf = (value: object) => JSON.parse(JSON.stringify(value));

it('dlqList converts a dead letter to JSON without secrets, and omits missing fields', () => {
  expect(jsonOf(dlqList({}, () => 'a1b2').json(ENTRY))).toEqual({
    dlqId: '1763650000000-7',
    messageId: 'msg_1',
    enteredAt: '2026-11-20T14:46:40.000Z',
    createdAt: '2026-11-20T14:46:35.000Z',
    url: 'https://api.example.com/orders?…',
    method: 'POST',
    responseStatus: 503,
    state: 'failed',
    queue: 'payments',
    labels: ['nightly', 'eu'],
    failureCallbackUrl: 'https://api.example.com/failed?…',
    callbackState: 'in_progress',
    maxRetries: 3,
    kind: 'a1b2',
  });
});

it('eventList and KEY_LIST convert their rows to JSON without secrets', () => {
  const event = {
    messageId: 'm',
    state: 'retry',
    time: 0,
    dueAt: 60_000,
    status: 500,
    error: 'EOF',
    url: 'https://a.example/?k=v',
  };
  expect(jsonOf(eventList({}).json({ ...event, state: 'retry' }))).toEqual({
    time: '1970-01-01T00:00:00.000Z',
    messageId: 'm',
    state: 'retry',
    responseStatus: 500,
    error: 'EOF',
    url: 'https://a.example/?…',
    labels: [],
    nextDeliveryAt: '1970-01-01T00:01:00.000Z',
  });
  expect(jsonOf(KEY_LIST.json({ key: 'k', waitlistSize: 3, paused: false }))).toEqual({
    key: 'k',
    waitlistSize: 3,
    paused: false,
  });
});

it('runList converts a run to JSON without secrets, and runQueryOf converts filters', () => {
  const run = {
    runId: 'wfr_1',
    url: 'https://user:secret@app.example.com/api/onboard?token=secret',
    state: 'failed',
    createdAt: 0,
    labels: [],
    failureFunction: { state: 'in_progress', nextDeliveryAt: 60_000 },
  } as const;
  expect(jsonOf(runList({}).json(run))).toEqual({
    runId: 'wfr_1',
    state: 'failed',
    createdAt: '1970-01-01T00:00:00.000Z',
    url: 'https://app.example.com/api/onboard?…',
    labels: [],
    callbackState: 'in_progress',
    nextDeliveryAt: '1970-01-01T00:01:00.000Z',
  });
  expect(runQueryOf({ state: 'Started', url: 'https://a.example/x', until: 1000 })).toEqual({
    state: 'started',
    url: 'https://a.example/x',
    toDate: 1000,
  });
});

it.each([
  ['matches', { state: 'started', toDate: 1000 }, [{ state: 'started', createdAt: 999 }], true],
  ['was completed before the date', { toDate: 1000 }, [{ state: 'success', createdAt: 1001, completedAt: 1000 }], true],
  ['has another state', { state: 'started' }, [{ state: 'failed' }], 'the service ignores the parameter state'],
  ['has an unknown state', { state: 'started' }, [{ state: 'unknown' }], false],
  ['is later', { toDate: 1000 }, [{ state: 'started', createdAt: 1001 }], 'the service ignores the parameter toDate'],
  ['has no time', { toDate: 1000 }, [{ state: 'started' }], false],
  ['has another URL', { url: 'https://a/' }, [{ state: 'started', url: 'https://b/' }], 'ignores the parameter url'],
] as const)('the proof of a list of runs is right if a run %s', (_, query, rows, result) => {
  const proof = runList(query).createProof();
  const runs = rows.map(row => ({ runId: 'wfr_1', labels: [], ...row }));
  const add = () => proof.add({ rows: runs, rejected: 0 });
  if (typeof result === 'string') expect(add).toThrow(result);
  else {
    add();
    expect(proof.isProven()).toBe(result);
  }
});

it.each([
  ['kind', { kind: 'payments' }, { queue: 'other' }],
  ['host', { host: 'API.example.com' }, { url: 'https://api.example.com:8080/orders' }],
  ['host and no URL', { host: 'api.example.com' }, { url: undefined }],
  ['callback state', { callbackState: 'IN_PROGRESS' }, { callbackState: 'success' }],
  ['callback state and no state', { callbackState: 'unknown' }, { callbackState: undefined }, 'unknown'],
  ['host and callback state', { host: 'api.example.com', callbackState: 'in_progress' }, { callbackState: 'fail' }],
] as const)(
  'isWanted accepts only dead letters of the requested %s',
  (_, own, other, state: CallbackState = 'in_progress') => {
    const list = dlqList({}, ({ queue }) => String(queue), own);
    expect(list.isWanted({ ...ENTRY, callbackState: state })).toBe(true);
    expect(list.isWanted({ ...ENTRY, ...other })).toBe(false);
  },
);

it('FILTERS contains every filter of the dead-letter queue', () => {
  const ofDlq = Object.values(FILTERS).filter(({ lists }) => lists.some(list => list === 'dlq'));
  expect(ofDlq.flatMap(filter => ('parameter' in filter ? filter.parameter : [])).sort()).toEqual(
    [...DLQ_FILTERS].sort(),
  );
});

it('queryOf converts filters to query parameters', () => {
  expect(queryOf({ message: 'm', status: '500', since: 1000, until: undefined })).toEqual({
    messageId: 'm',
    responseStatus: '500',
    fromDate: 1000,
  });
});

it.each([
  ['events', 'status', '500', 'is a filter of dlq'],
  ['keys', 'queue', 'q', 'is a filter of dlq and events'],
  ['dlq', 'status', 'five', 'must be an HTTP status code, 100 to 999, or 0 for no response'],
  ['events', 'state', 'dead', expect.stringContaining('must be one of CREATED, ')],
  ['runs', 'state', 'in_progress', 'must be one of STARTED, SUCCESS, FAILED, CANCELED'],
  ['runs', 'state', 'started', undefined],
  ['runs', 'message', 'm', 'is a filter of dlq and events'],
  ['events', 'state', 'FAILED', undefined],
  ['events', 'state', 'failed', undefined],
  ['dlq', 'url', 'a.example/x', 'must be a complete URL such as https://app.example.com/api/onboarding'],
  ['dlq', 'url', 'https://a.example/x', undefined],
  ['dlq', 'since', 1000, undefined],
  ['dlq', 'host', 'app.example.com:8080', undefined],
  ['dlq', 'host', 'https://app.example.com/x', 'must be a host such as app.example.com or app.example.com:8080'],
  ['events', 'host', 'app.example.com', 'is a filter of dlq'],
  ['dlq', 'callbackState', 'in_progress', undefined],
  ['dlq', 'callbackState', 'stuck', 'must be one of in_progress, success, fail, canceled, unknown'],
] as const)('filterError for the list %s returns the error of the filter %s=%s, if any', (list, name, value, fault) => {
  expect(filterError(list, name, value)).toEqual(fault);
});

it.each([
  'https://user:secret@host name/hook?token=secret',
  `https://user:secret@${'一'.repeat(90)}.example/hook?token=secret`,
  'user:secret@api.example.com/?token=secret',
])('the list of schedules shows no secrets of a destination that is not a valid URL: %s', destination => {
  const row = { scheduleId: 's', destination } as ServiceSchedule;
  expect(JSON.stringify(SCHEDULE_LIST.json(row))).not.toContain('secret');
  expect(jsonOf(SCHEDULE_LIST.json({ ...row, destination: 'group-1.a' }))).toMatchObject({ topic: 'group-1.a' });
});
