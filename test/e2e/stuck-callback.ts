import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readJournal } from '../../src/auto-cancel/journal.ts';
import { emptyJournal, foldEntry } from '../../src/auto-cancel/journal-state.ts';
import { createTracker } from '../../src/collectors/dlq/callback-tracker.ts';
import type { WireCallbackState } from '../../src/emulator/message.ts';
import { type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts';
import type { JournalEntry } from '../../src/model/journal.ts';
import { attachSqliteStore, openSqliteStore } from '../../src/store/sqlite.ts';
import { toDlqEntry } from '../../src/upstream/wire.ts';
import { type CliProcess, startCli } from '../support/cli.ts';
import { type FrontHooks, type FrontRequest, startFront } from '../support/front.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const ACCOUNT = 'a';

const FAST_CLOCK = new URL('../support/fast-clock.ts', import.meta.url);
const JOURNAL_CRASH = new URL('../support/journal-crash.ts', import.meta.url);

export interface Scene {
  readonly emulator?: Omit<EmulatorOptions, 'history' | 'workload' | 'dlqEntries'>;
  /** Number of stuck callbacks; default 1. */
  readonly stuck?: number;
  /** Time for which the healthy callback has been in progress (ms); default one hour. */
  readonly healthyFor?: number;
  /** Additional settings for sections of the configuration. */
  readonly autoCancel?: object;
  readonly rule?: object;
  readonly upstream?: object;
  /** Whether the agent follows the event log. */
  readonly events?: boolean;
  readonly hooks?: FrontHooks;
  /** Token used for actions; default `full`. */
  readonly actionToken?: 'full' | 'read-only' | 'void';
  /** Speed of the agent's clock relative to real time; default 10. */
  readonly speed?: number;
  /** Whether the service lists the message id of each failure callback. */
  readonly listsCallbackIds?: boolean;
}

/** Description of a DELETE that the journal did not permit. */
export type Violation = string;

export const isDelete = ({ method }: FrontRequest) => method === 'DELETE';
const isList = ({ method, path }: FrontRequest) => method === 'GET' && /^\/v2\/dlq(\?|$)/.test(path);
/** Returns whether a request is for a page of a complete walk, rather than for one entry or only workflow runs. */
const isWalk = (request: FrontRequest) => isList(request) && !/messageId=|source=/.test(request.path);
export const isLook = ({ method, path }: FrontRequest) => method === 'GET' && path.includes('messageId=');

/**
 * Sets up an emulated service with stuck callbacks, a healthy one and a dead letter without a callback, behind a proxy
 * that checks every DELETE. The store contains tracker data of the last 60 hours. The real agent runs on a fast clock.
 */
export async function setStage(onEnd: (close: () => Promise<unknown>) => void, scene: Scene = {}) {
  const { stuck: count = 1, hooks = {}, speed = 10, listsCallbackIds = false } = scene;
  const since = Date.now();
  const emulator = await startEmulator({ ...scene.emulator, history: 0, workload: false, dlqEntries: 0 });
  onEnd(() => emulator.close());
  const { state } = emulator;
  const addRun = (path: string, age: number) =>
    state.addFailedRun({
      enteredAt: since - age,
      createdAt: since - age - MINUTE,
      workflowUrl: `https://stuck.example.com/${path}`,
    });
  const stuck = Array.from({ length: count }, (_, index) => addRun(`run-${index}`, 61 * HOUR));
  const healthy = addRun('healthy', scene.healthyFor ?? HOUR);
  const trap = state.addDlqEntry({ enteredAt: since - HOUR });

  const deletes: string[] = [];
  const violations: Violation[] = [];
  let walks = 0;
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-stuck-'));
  onEnd(async () => rmSync(folder, { recursive: true }));
  const path = join(folder, 'store.db');
  const traceFile = join(folder, 'trace');
  const stopFile = join(folder, 'STOP');

  /** Reads the journal through a separate connection, as another process would. */
  async function readLines(): Promise<JournalEntry[]> {
    const store = await attachSqliteStore({ path });
    try {
      return await readJournal(store, ACCOUNT);
    } finally {
      await store.close();
    }
  }

  /** Records a violation unless a DELETE has a committed intent without a response and follows at least three walks. */
  async function watchDelete({ path: requested }: FrontRequest): Promise<void> {
    const id = requested.replace('/v2/workflows/dlq/callback/', '');
    deletes.push(id);
    const lines = await readLines();
    const intents = lines.filter(line => line.step === 'intent');
    const own = intents.filter(line => line.step === 'intent' && line.target.id === id);
    const received = deletes.filter(other => other === id).length;
    if (own.length < received)
      violations.push(`DELETE ${received} of ${id} was sent with ${own.length} committed intents`);
    const last = own.at(-1);
    const isAnswered = lines.some(
      line => line.step === 'answered' && line.action === last?.action && line.attempt === own.length,
    );
    if (isAnswered) violations.push(`a DELETE of ${id} was sent after the response to its last intent`);
    if (walks < 3) violations.push(`a DELETE of ${id} was sent after ${walks} walks of this process`);
  }

  const messageOf = (dlqId: string) => {
    const [entry] = state.findDlqEntry(dlqId) ?? [];
    return entry?.run?.callback?.messageId;
  };
  function withMessages(body: Buffer): Buffer {
    const list = JSON.parse(body.toString()) as { messages: { dlqId: string; failureCallbackInfo?: object }[] };
    for (const { dlqId, failureCallbackInfo: info } of list.messages) {
      if (info) Object.assign(info, { messageId: messageOf(dlqId) });
    }
    return Buffer.from(JSON.stringify(list));
  }

  const front = await startFront(emulator.url, {
    async before(request) {
      if (isWalk(request)) walks += 1;
      if (isDelete(request)) await watchDelete(request);
      await hooks.before?.(request);
    },
    async after(request, answer) {
      // The Date header follows the agent's clock.
      answer.headers.date = new Date(since + (Date.now() - since) * speed).toUTCString();
      if (listsCallbackIds && isList(request)) answer.body = withMessages(answer.body);
      await hooks.after?.(request, answer);
    },
  });
  onEnd(() => front.close());

  const rows = state.dlqRows().map(row => toDlqEntry(row, since));
  const entries = rows
    .filter(row => row !== undefined)
    .map(row => (listsCallbackIds ? { ...row, callbackMessageId: messageOf(row.id) } : row));
  const tracker = createTracker({ unreported: [], maxGap: 30 * MINUTE });
  for (let age = 60 * HOUR; age >= 0; age -= 10 * MINUTE) {
    tracker.observe(
      entries.filter(({ enteredAt = 0 }) => enteredAt <= since - age),
      since - age,
    );
  }
  const store = await openSqliteStore({ path });
  await store.commit(
    ACCOUNT,
    tracker.drainChanges().map(({ key, value }) => ({ key: `dlq/${key}`, value })),
  );
  await store.close();

  const configFile = join(folder, 'config.yaml');
  const many = { perRun: 100, perHour: 100 };
  function configOf(scene: Pick<Scene, 'autoCancel' | 'rule' | 'upstream' | 'events'>) {
    const { limits, breaker, ...autoCancel } = (scene.autoCancel ?? {}) as { limits?: object; breaker?: object };
    return {
      server: { listen: '127.0.0.1:0' },
      store: { path },
      accounts: [
        {
          name: ACCOUNT,
          baseUrl: front.url,
          token: { env: 'TOKEN' },
          actionToken: { env: 'ACTION_TOKEN' },
          budget: { requestsPerSecond: 1000, burst: 1000, concurrency: 8, requestsPerDay: 10_000_000 },
          upstream: { timeout: '60s', ...scene.upstream },
        },
      ],
      collect: {
        flowControl: { enabled: false },
        events: { enabled: scene.events ?? false, every: `${speed}s` },
        dlq: { every: `${speed}s`, rescanEvery: `${speed}s` },
      },
      autoCancel: {
        mode: 'enforce',
        stopFile,
        limits: { ...many, perDay: 100, spacing: '0s', ...limits },
        breaker: {
          candidates: { max: 100, percent: 100 },
          errors: { max: 100 },
          lostRaces: { percent: 100, ofLast: 100 },
          ...breaker,
        },
        ...autoCancel,
        rules: [
          {
            name: 'stuck',
            mode: 'enforce',
            expires: '2099-12-31',
            match: { workflowUrl: { prefix: ['https://stuck.example.com/'] } },
            grace: '0s',
            cooldown: { perUrl: '0s' },
            limits: many,
            ...scene.rule,
          },
        ],
      },
    };
  }
  /** Writes the configuration for agents started later. */
  const configure = (scene: Parameters<typeof configOf>[0]) =>
    writeFileSync(configFile, JSON.stringify(configOf(scene)));
  configure(scene);
  const tokens = { full: emulator.token, 'read-only': emulator.credentials.readOnlyToken, void: 'void-action-token' };
  const env = {
    TOKEN: emulator.credentials.readOnlyToken,
    ACTION_TOKEN: tokens[scene.actionToken ?? 'full'],
    NODE_OPTIONS: [FAST_CLOCK, JOURNAL_CRASH].map(url => `--import=${url}`).join(' '),
    FAST_CLOCK: `${since} ${speed}`,
    JOURNAL_TRACE: traceFile,
  };
  const running: CliProcess[] = [];
  onEnd(async () => {
    for (const each of running) each.kill('SIGKILL');
    await Promise.all(running.map(({ ended }) => ended));
  });
  function run(args: readonly string[], more: Readonly<Record<string, string>> = {}): CliProcess {
    const child = startCli(args, { ...env, ...more });
    running.push(child);
    return child;
  }

  return {
    emulator,
    stuck,
    healthy,
    trap,
    /** Ids of all received DELETEs, regardless of their outcome. */
    deletes,
    violations,
    path,
    stopFile,
    configure,
    now: () => since + (Date.now() - since) * speed,
    /** Returns the number of walks of the latest process. */
    walks: () => walks,
    /** Starts the agent. `crash`: the commit at which it is killed; see support/journal-crash.ts. */
    startAgent(crash = '') {
      walks = 0;
      return run(['serve', '--config', configFile], { JOURNAL_CRASH: crash });
    },
    async cli(...args: string[]) {
      const child = run(['auto-cancel', args[0] ?? '', '--config', configFile, ...args.slice(1)]);
      return { code: await child.ended, stdout: child.stdout(), stderr: child.stderr() };
    },
    /** Simulates time without a running agent (ms on the agent's clock). */
    async passTime(ms: number) {
      const store = await openSqliteStore({ path });
      const [at, number] = JSON.parse((await store.scan(ACCOUNT, 'dlq/callbacks')).get('dlq/callbacks') ?? '[]');
      await store.commit(ACCOUNT, [{ key: 'dlq/callbacks', value: JSON.stringify([at - ms, number]) }]);
      await store.close();
    },
    async journal() {
      const lines = await readLines();
      const folded = emptyJournal();
      for (const line of lines) foldEntry(folded, line);
      return { lines, state: folded, actions: [...folded.actions.values()] };
    },
    /** Returns all journal lines that any process committed, in their original form. */
    traced: (): JournalEntry[] =>
      existsSync(traceFile)
        ? readFileSync(traceFile, 'utf8')
            .trimEnd()
            .split('\n')
            .map(line => JSON.parse(line.slice(line.indexOf(' ') + 1)) as JournalEntry)
        : [],
    callbackOf: (dlqId: string): WireCallbackState | undefined =>
      state.dlqRows().find(row => row.dlqId === dlqId)?.failureCallbackInfo?.state,
    secrets: [emulator.token, emulator.credentials.readOnlyToken, tokens.void],
  };
}

export type Stage = Awaited<ReturnType<typeof setStage>>;
