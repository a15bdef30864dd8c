import type { Config } from '../config/schema.ts';
import { type Clock, systemClock, unlessAborted } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Source } from '../metrics/family.ts';
import { createPushMeter, type PushMeter } from '../metrics/push.ts';
import type { RecordQueue } from '../push/record-queue.ts';
import type { Sender } from '../push/sender.ts';
import { type Env, isPushed, targetOf } from '../push/target.ts';
import { isNotHeld, NO_ACCOUNT } from '../store/store.ts';
import type { Holding } from './holding.ts';
import { identityOf } from './identity.ts';
import { createPost } from './post.ts';
import { version } from './version.ts';

/** Log records, as one configuration asks for them. */
export interface PushLogs {
  /** Body of the loop that sends them; undefined where they are off. Never rejects. */
  readonly send: ((signal: AbortSignal) => Promise<void>) | undefined;
  /** Records are taken, or not, from now on. */
  take(): void;
  /** Waits for the request that is under way, as far as the receiver answers in time. */
  close(): Promise<void>;
  readonly sources: readonly Source[];
  readonly trouble: Sender['trouble'];
  readonly counters: PushMeter;
  readonly id: string;
}

export interface PushLogsDeps {
  readonly config: Config;
  readonly env: Env;
  readonly records: RecordQueue;
  /** Which of several agents this is; the same after a restart. */
  readonly instance: string;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
  /** Names of the accounts that there are now. */
  accounts(): readonly string[];
  readonly holding?: Pick<Holding, 'held' | 'isAway'> | undefined;
}

/** Milliseconds that a request which is under way has at the end. */
const LONGEST_FLUSH = 3000;

/**
 * Of these records the receiver can make nothing, or they are too many. After any other status they wait, as the store keeps
 * them: a wrong key or address is mended.
 */
const UNREADABLE: ReadonlySet<number> = new Set([400, 413]);

export const areLogsPushed = ({ push }: Config, env: Env): boolean => isPushed('logs', push.logs, env);

/**
 * Body of the loop that deletes log records of accounts that are not configured any more, whether or not records are sent now.
 * Never rejects.
 */
export const deletingOthers =
  (
    { accounts }: Pick<Config, 'accounts'>,
    { records, log, holding }: Pick<PushLogsDeps, 'records' | 'log' | 'holding'>,
  ) =>
  async (signal: AbortSignal): Promise<void> => {
    const deleting = records.deleteOthers(
      accounts.map(({ name }) => name),
      signal,
    );
    // A reload waits for the end of the loop, and not for a slow database.
    await unlessAborted(deleting, signal).catch(error => {
      const isExpected = signal.aborted || holding?.isAway();
      if (!isExpected) log.warn({ error: String(error) }, 'what is no longer needed was left in the store');
    });
  };

async function openExport(deps: PushLogsDeps, counters: PushMeter) {
  const { config, env, records, instance, holding, log, clock, random } = deps;
  const target = targetOf('logs', config.push.logs, env);
  const [{ createLogExport }, { resourceOf }, { createSender }] = await Promise.all([
    import('../push/logs.ts'),
    import('../push/push-metrics.ts'),
    import('../push/sender.ts'),
  ]);
  const asking = createPost(target.timeout);
  const sender = createSender({
    signal: 'logs',
    target,
    post: asking.post,
    isFinal: status => UNREADABLE.has(status),
    counters,
    clock,
    random,
    log,
  });
  const ended = new AbortController();
  const isHeld = (account: string) => holding?.held(account) ?? true;
  const exporting = createLogExport({
    version,
    resource: resourceOf(env, { version, instance }),
    sender,
    isHeld,
    signal: ended.signal,
    queue: {
      ...records,
      // Another replica has the account, and its rows.
      remove: (...which) =>
        records.remove(...which).catch(error => {
          if (!isNotHeld(error)) throw error;
        }),
    },
    accounts: () => [NO_ACCOUNT, ...deps.accounts()],
  });
  return { exporting, ended, asking, sender };
}

/**
 * Nothing is changed before `take`. `before`: what is in use until then, and the same where the section has not changed. Throws
 * an Error where the environment asks for what is not there.
 */
export async function openPushLogs(deps: PushLogsDeps, before?: PushLogs): Promise<PushLogs> {
  const { config, env, records, clock, log, holding } = deps;
  const isOn = areLogsPushed(config, env);
  const id = identityOf([isOn, isOn && config.push.logs]);
  if (before?.id === id) return before;
  const counters = before?.counters ?? createPushMeter(['logs'], clock.now);
  const opened = isOn ? await openExport(deps, counters) : undefined;
  return {
    id,
    counters,
    trouble: () => opened?.sender.trouble(),
    sources: isOn ? [counters.source] : [],
    send:
      opened &&
      (signal =>
        opened.exporting.run(signal).catch(error => {
          if (!holding?.isAway()) log.warn({ error: String(error) }, 'log records wait for the store');
        })),
    take: () =>
      records.use(
        isOn ? { dropped: count => counters.items.inc({ signal: 'logs', outcome: 'dropped' }, count) } : undefined,
      ),
    async close() {
      if (!opened) return;
      const isOver = new AbortController();
      // In real time, like the receiver's.
      const deadline = systemClock.sleep(LONGEST_FLUSH, isOver.signal).catch(() => undefined);
      await Promise.race([opened.exporting.close(), deadline]);
      // A timer would keep the process from ending.
      isOver.abort();
      opened.ended.abort();
      await opened.asking.close();
    },
  };
}
