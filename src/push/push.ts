import { type Clock, systemClock } from '../kit/clock.ts';
import { identityOf } from '../kit/identity.ts';
import type { Log } from '../kit/log.ts';
import { version } from '../kit/version.ts';
import type { Source } from '../metrics/family.ts';
import type { ProcessMetrics } from '../metrics/process.ts';
import { createPushMeter, type PushMeter } from '../metrics/push.ts';
import { createPost } from '../upstream/post.ts';
import type { PushOptions } from './options.ts';
import type { PushedMetrics } from './push-metrics.ts';
import type { Sender } from './sender.ts';
import { type Env, isPushed, targetOf } from './target.ts';

type Body = (signal: AbortSignal) => Promise<void>;

/** All metrics, pushed as one configuration asks for it. */
export interface PushMetrics {
  /** Bodies of the loops that note what there is to push, and that send it; undefined where metrics are not pushed. */
  readonly loops: { readonly note: Body; readonly send: Body } | undefined;
  /** Notes once more, and sends what waits, as far as the receiver takes it in time. */
  close(): Promise<void>;
  /** Ends it without a word: another goes on with what waits. */
  leave(): Promise<void>;
  readonly sources: readonly Source[];
  readonly trouble: Sender['trouble'];
  readonly kept: Kept;
}

interface Kept {
  readonly id: string;
  readonly meter: PushMeter;
  readonly pushed: PushedMetrics | undefined;
}

export interface PushMetricsDeps {
  /** Sources whose metrics are pushed: all that /metrics exposes. */
  readonly shown: () => readonly Source[];
  readonly config: { readonly push: PushOptions };
  readonly env: Env;
  readonly process: Pick<ProcessMetrics, 'refresh'>;
  /** Which of several agents this is; the same after a restart. */
  readonly instance: string;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** Milliseconds in which what waits is sent at shutdown; after that it is dropped. */
const LONGEST_FLUSH = 3000;

async function openExport(deps: PushMetricsDeps, { meter, pushed }: Pick<Kept, 'meter' | 'pushed'>) {
  const { config, env, process, instance, log } = deps;
  const target = targetOf(config.push.metrics, env);
  const [{ createPushedMetrics, resourceOf }, { createSender }] = await Promise.all([
    import('./push-metrics.ts'),
    import('./sender.ts'),
  ]);
  const asking = createPost(target.timeout);
  const sender = createSender({ ...deps, target, post: asking.post, counters: meter });
  return {
    asking,
    sender,
    pushed:
      pushed ??
      createPushedMetrics({
        ...deps,
        origin: { version, resource: resourceOf(env, { version, instance }) },
        refresh: process.refresh,
        items: meter.items,
        // One bug must not cost every account's metrics.
        failed: ({ account }, error) =>
          log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
      }),
  };
}

/**
 * Nothing is changed before `take`. `before`: what is in use until then, and the same where the section has not changed; what waits
 * goes to the new receiver. Throws an Error where the environment asks for what is not there.
 */
export async function openPushMetrics(deps: PushMetricsDeps, before?: PushMetrics): Promise<PushMetrics> {
  const { config, env, clock, shown } = deps;
  const isOn = isPushed(config.push.metrics, env);
  const id = identityOf([isOn, isOn && config.push.metrics]);
  if (before?.kept.id === id) return before;
  const meter = before?.kept.meter ?? createPushMeter(clock.now);
  const opened = isOn ? await openExport(deps, { meter, pushed: before?.kept.pushed }) : undefined;
  const ended = new AbortController();

  async function flush(): Promise<void> {
    if (!opened) return;
    const { pushed, sender } = opened;
    await pushed.note(shown(), sender, ended.signal);
    await pushed.send(sender, ended.signal);
  }

  async function leave(): Promise<void> {
    ended.abort();
    await opened?.asking.close();
  }

  return {
    kept: { id, meter, pushed: opened?.pushed },
    sources: isOn ? [meter.source] : [],
    trouble: () => opened?.sender.trouble(),
    loops: opened && {
      note: signal => opened.pushed.note(shown(), opened.sender, signal),
      send: signal => opened.pushed.send(opened.sender, signal),
    },
    leave,
    async close() {
      const isOver = new AbortController();
      // In real time, like the receiver's.
      const deadline = systemClock.sleep(LONGEST_FLUSH, isOver.signal).catch(() => undefined);
      await Promise.race([flush().catch(() => undefined), deadline]);
      // A timer would keep the process from ending.
      isOver.abort();
      await leave();
    },
  };
}
