import { describe, expect, test } from 'vitest';
import { type Answer, ask, emptyEmulator, emulator, HOUR, NOON } from './emulated.ts';

const MINUTE = 60_000;
const MINUTELY = 'scd_7minutely';

type Started = Awaited<ReturnType<typeof emulator>>;

async function scheduleOf(emulated: Started, id = MINUTELY) {
  const { body } = await ask(emulated, '/v2/schedules');
  return body.find(({ scheduleId }: { scheduleId: string }) => scheduleId === id);
}

const send = (emulated: Started, method: string, path: string): Promise<Answer> =>
  ask(emulated, path, { method, headers: { authorization: `Bearer ${emulated.token}` } });

const created = (emulated: Started, id: string) =>
  emulated.state.eventRows().filter(({ state, scheduleId }) => state === 'created' && scheduleId === id);

describe('schedules', () => {
  test('schedules publish at their cron times, also in another time zone, and report the last and the next run', async () => {
    const emulated = await emptyEmulator({ scenario: 'steady' });
    expect(await scheduleOf(emulated)).not.toHaveProperty('lastScheduleTime');
    emulated.clock.advance(HOUR + 30_000);
    const [first, ...others] = created(emulated, MINUTELY).map(({ time }) => Number(time) - NOON);
    expect([first, others.length]).toEqual([MINUTE, 59]);
    expect(await scheduleOf(emulated)).toMatchObject({
      cron: '* * * * *',
      destination: 'https://reports.example.com/run',
      isPaused: false,
      lastScheduleTime: NOON + HOUR,
      nextScheduleTime: NOON + HOUR + MINUTE,
    });
    // Noon on a Saturday, in the daylight saving time of New York.
    const digest = await scheduleOf(emulated, 'scd_3digest');
    expect(digest.nextScheduleTime).toBe(Date.UTC(2026, 2, 16, 12));
    expect(digest.cron).toBe('CRON_TZ=America/New_York 0 8 * * 1-5');
    emulated.clock.advance(Date.UTC(2026, 2, 16, 12) - emulated.clock.now() + 1);
    const [started] = created(emulated, 'scd_3digest');
    expect(Number(started?.time)).toBe(Date.UTC(2026, 2, 16, 12));
  });

  test('the states of the last run match its messages', async () => {
    const emulated = await emptyEmulator({ scenario: 'steady' });
    const seen = new Set<string>();
    for (let second = 0; second < 600; second += 5) {
      emulated.clock.advance(5000);
      const { lastScheduleStates = {} } = await scheduleOf(emulated);
      for (const [id, state] of Object.entries(lastScheduleStates)) {
        seen.add(String(state));
        const ends = emulated.state
          .eventRows()
          .filter(row => row.messageId === id && /delivered|failed/.test(row.state));
        expect(ends.map(row => row.state)).toEqual(state === 'IN_PROGRESS' ? [] : ['delivered']);
      }
    }
    expect([...seen].sort()).toEqual(['IN_PROGRESS', 'SUCCESS']);
  });

  test('a schedule can be paused and resumed, and its next run moves while it is paused', async () => {
    const emulated = await emptyEmulator({ scenario: 'steady' });
    expect((await send(emulated, 'PATCH', `/v2/schedules/${MINUTELY}/pause`)).status).toBe(200);
    emulated.clock.advance(10 * MINUTE);
    expect(created(emulated, MINUTELY)).toEqual([]);
    const next = NOON + 11 * MINUTE;
    expect(await scheduleOf(emulated)).toMatchObject({ isPaused: true, nextScheduleTime: next });
    expect((await send(emulated, 'PATCH', `/v2/schedules/${MINUTELY}/resume`)).status).toBe(200);
    emulated.clock.advance(2 * MINUTE);
    expect(created(emulated, MINUTELY).length).toBe(2);
    expect((await send(emulated, 'PATCH', '/v2/schedules/none/pause')).status).toBe(404);
  });

  test('a deleted schedule is not listed and has no more runs, also after a long pause', async () => {
    const emulated = await emptyEmulator({ scenario: 'steady' });
    expect((await send(emulated, 'DELETE', `/v2/schedules/${MINUTELY}`)).status).toBe(200);
    emulated.clock.advance(7 * HOUR);
    expect(await scheduleOf(emulated)).toBeUndefined();
    expect(created(emulated, MINUTELY)).toEqual([]);
    expect((await send(emulated, 'DELETE', `/v2/schedules/${MINUTELY}`)).status).toBe(404);
  });

  test.each([
    [
      'schedule-paused',
      9,
      { isPaused: true, lastScheduleTime: NOON + 9 * MINUTE, nextScheduleTime: NOON + 21 * MINUTE },
    ],
    ['schedule-deleted', 9, undefined],
    ['schedule-twice', 29, { isPaused: false, lastScheduleTime: NOON + 20 * MINUTE }],
  ])('%s: the schedule has %i starts in the first 20 minutes', async (scenario, starts, row) => {
    const emulated = await emulator({ scenario });
    emulated.clock.advance(20 * MINUTE);
    const schedule = await scheduleOf(emulated);
    if (row) expect(schedule).toMatchObject(row);
    else expect(schedule).toBeUndefined();
    // Operators republish messages every twelve minutes.
    const isStart = (time: number) => time >= NOON && time % (12 * MINUTE) !== 0 && [0, 1500].includes(time % MINUTE);
    const times = created(emulated, MINUTELY).map(({ time }) => Number(time));
    expect(new Set(times.filter(isStart)).size).toBe(starts);
  });
});

describe('queues', () => {
  test('a paused queue delivers nothing and its lag grows; after the queue is resumed, it delivers and its lag shrinks', async () => {
    const emulated = await emptyEmulator({ scenario: 'steady' });
    const queue = async () => (await ask(emulated, '/v2/queues/media')).body;
    expect((await ask(emulated, '/v2/queues')).body.map(({ name }: { name: string }) => name)).toEqual([
      'emails',
      'legacy',
      'media',
    ]);
    expect(await queue()).toMatchObject({ parallelism: 100, lag: 0, paused: false });
    await send(emulated, 'POST', '/v2/queues/media/pause');
    emulated.clock.advance(10 * MINUTE);
    const { lag, paused } = await queue();
    expect(paused).toBe(true);
    expect(lag).toBeGreaterThan(50);
    const active = () => emulated.state.eventRows().filter(row => row.queueName === 'media' && row.state === 'active');
    expect(active()).toEqual([]);
    await send(emulated, 'POST', '/v2/queues/media/resume');
    emulated.clock.advance(10 * MINUTE);
    expect((await queue()).lag).toBeLessThan(lag);
    expect(active().length).toBeGreaterThan(50);
    expect((await send(emulated, 'POST', '/v2/queues/none/pause')).status).toBe(404);
  });
});

describe('workflow runs', () => {
  const pageOf = async (emulated: Started, query = '') => (await ask(emulated, `/v2/workflows/logs?${query}`)).body;

  async function allRuns(emulated: Started, query = '') {
    const runs = [];
    let pages = 0;
    for (let cursor = ''; pages === 0 || cursor; pages++) {
      const page = await pageOf(emulated, `${query}&cursor=${cursor}`);
      expect(page.runs.length).toBeLessThanOrEqual(10);
      runs.push(...page.runs);
      cursor = page.cursor;
    }
    return { runs, pages };
  }

  test('running, succeeded and failed runs are listed once each, ten a page', async () => {
    const emulated = await emulator({ scenario: 'steady' });
    const { runs, pages } = await allRuns(emulated);
    expect(runs.length).toBeGreaterThan(900);
    expect(pages).toBe(Math.ceil(runs.length / 10));
    expect(new Set(runs.map(run => run.workflowRunId)).size).toBe(runs.length);
    expect(new Set(runs.map(run => run.workflowState))).toEqual(new Set(['RUN_STARTED', 'RUN_SUCCESS', 'RUN_FAILED']));
    const created = runs.map(run => run.workflowRunCreatedAt);
    expect(created).toEqual(created.toSorted((a, b) => b - a));
  });

  test('no run is older than an hour in the scenario steady, but some are in the scenario stuck-run', async () => {
    const stuck = `state=RUN_STARTED&toDate=${NOON - HOUR}`;
    expect(await pageOf(await emulator({ scenario: 'steady' }), stuck)).toEqual({ cursor: '', runs: [] });
    const { runs } = await pageOf(await emulator({ scenario: 'stuck-run' }), stuck);
    expect(runs.length).toBe(10);
  });

  test('runs are found by id, by id and creation time, by URL and by date', async () => {
    const emulated = await emptyEmulator();
    const run = { workflowUrl: 'https://a.example.com/', workflowCreatedAt: NOON - 5000, callbackState: null };
    const id = 'wfr_a';
    emulated.state.addFailedRun({ workflowRunId: id, ...run });
    const dlqId = emulated.state.addFailedRun({ workflowRunId: 'wfr_failed', workflowCreatedAt: NOON - 9000 });
    const ids = async (query: string) => (await allRuns(emulated, query)).runs.map(run => run.workflowRunId);
    expect(await ids(`workflowRunId=${id}`)).toEqual([id]);
    expect(await ids(`workflowRuns=wfr_failed@${NOON - 9000},other@5`)).toEqual(['wfr_failed']);
    expect(await ids('workflowUrl=https://a.example.com/')).toEqual([id]);
    expect(await ids(`fromDate=${NOON - 6000}&toDate=${NOON - 1}`)).toEqual([id]);
    expect((await allRuns(emulated, 'state=RUN_FAILED&trimBody=-1')).runs).toMatchObject([
      { workflowRunId: id },
      { dlqId },
    ]);
    expect((await ask(emulated, '/v2/workflows/logs?toDate=soon')).status).toBe(400);
  });
});

describe('account', () => {
  const login = ({ credentials }: Started) =>
    Buffer.from(Object.values(credentials.login).join(':')).toString('base64');
  const get = (emulated: Started, path: string) =>
    ask(emulated, path, { headers: { authorization: `Basic ${login(emulated)}` } });

  test('the account record and statistics require the account’s login, and the statistics count the messages of the UTC day', async () => {
    const emulated = await emptyEmulator({ scenario: 'steady' });
    const { accountId } = emulated.credentials;
    expect((await ask(emulated, '/v2/qstash/users')).status).toBe(401);
    const { body: users } = await get(emulated, '/v2/qstash/users');
    expect(users).toMatchObject([{ id: accountId, token: emulated.token, region: 'eu-central-1' }]);
    const usage = async () => (await get(emulated, `/v2/qstash/stats/${accountId}?period=1h`)).body.daily_requests[0];
    emulated.clock.advance(HOUR);
    expect((await usage()).y).toBe(emulated.state.countEvents().created);
    emulated.clock.advance(11.5 * HOUR);
    expect((await usage()).x).toBe('2026-03-15 00:30:00.000 +0000 UTC');
    const today = emulated.state.countEvents({ from: Date.UTC(2026, 2, 15) }).created;
    expect((await usage()).y).toBe(today);
    expect((await get(emulated, `/v2/qstash/stats/${accountId}?period=30d`)).status).toBe(400);
  });

  test('quota-nearly-used: more than nine tenths of the requests of the day are used', async () => {
    const emulated = await emulator({ scenario: 'quota-nearly-used' });
    const { body } = await get(emulated, `/v2/qstash/stats/${emulated.credentials.accountId}`);
    const [user] = (await get(emulated, '/v2/qstash/users')).body;
    expect(body.daily_requests[0].y / user.max_requests_per_day).toBeGreaterThan(0.9);
  });
});

test('limit-overwritten: the pinned limit of a key is replaced by a higher, unpinned limit', async () => {
  const emulated = await emulator({ scenario: 'limit-overwritten' });
  const key = async () => (await ask(emulated, '/v2/flowControl/llm')).body;
  expect(await key()).toMatchObject({ parallelismMax: 4, isPinnedParallelism: true });
  emulated.clock.advance(15 * MINUTE);
  expect(await key()).toMatchObject({ parallelismMax: 40, isPinnedParallelism: false });
});

test('global parallelism counts the slots in use of all keys, and omits a zero', async () => {
  const emulated = await emulator({ dialect: { flowControlFields: 'all' } });
  const { flowControls } = (await ask(emulated, '/v2/flowControl')).body;
  const inUse = flowControls.reduce((sum: number, key: { parallelismCount: number }) => sum + key.parallelismCount, 0);
  expect((await ask(emulated, '/v2/globalParallelism')).body).toEqual({ parallelismMax: 100, parallelismCount: inUse });
  const idle = await emptyEmulator({ dialect: { flowControlZeros: 'omitted' } });
  expect((await ask(idle, '/v2/globalParallelism')).body).toEqual({ parallelismMax: 100 });
});
