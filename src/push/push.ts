import { type Clock, unlessAborted, withDeadline } from '../kit/clock.ts';
import { identityOf } from '../kit/identity.ts';
import type { Log } from '../kit/log.ts';
import type { Env } from '../kit/secret.ts';
import { version } from '../kit/version.ts';
import type { Source } from '../metrics/family.ts';
import type { ProcessMetrics } from '../metrics/process.ts';
import type { PushMeter } from '../metrics/push.ts';
import { createPost } from '../upstream/post.ts';
import type { PushOptions } from './options.ts';
import type { PushedMetrics } from './push-metrics.ts';
import type { Sender } from './sender.ts';
import { isPushed, targetOf } from './target.ts';

type Body = (signal: AbortSignal) => Promise<void>;

export interface Push {
  readonly id: string;
  /** Loop bodies that fill and drain the queue; undefined if metrics are not pushed. */
  readonly loops: { readonly enqueue: Body; readonly send: Body } | undefined;
  /** The queue and the pushed series; undefined if metrics are not pushed. */
  readonly pushed: PushedMetrics | undefined;
  readonly sources: readonly Source[];
  readonly trouble: Sender['trouble'];
  /** Sends a last snapshot within `MAX_FLUSH_MS`, unless `next` continues with the same queue. */
  close(next?: Push): Promise<void>;
}

export interface PushDeps {
  /** Returns the sources to push: all sources of /metrics. */
  readonly shown: () => readonly Source[];
  readonly config: { readonly push: PushOptions };
  readonly env: Env;
  readonly process: Pick<ProcessMetrics, 'refresh'>;
  /** Identity of this agent among others, which is stable across restarts. */
  readonly instance: string;
  /** Counters that outlive a reload. */
  readonly meter: PushMeter;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

/** Time limit of the final push on shutdown, in real time (ms). Unsent metrics are dropped. */
const MAX_FLUSH_MS = 3000;

/** Returns `before` if its settings are equal, else a new push with its queue. Rejects with an Error for an unsupported setting. */
export async function openPush(deps: PushDeps, before?: Push): Promise<Push> {
  const { config, env, process, instance, meter, shown, log } = deps;
  const isOn = isPushed(config.push.metrics, env);
  const id = identityOf([isOn, isOn && config.push.metrics]);
  if (before?.id === id) return before;
  if (!isOn) {
    const nothing = { trouble: () => undefined, close: async () => undefined };
    return { id, loops: undefined, pushed: undefined, sources: [], ...nothing };
  }
  const target = targetOf(config.push.metrics, env);
  const [{ createPushedMetrics, resourceOf }, { createSender }] = await Promise.all([
    import('./push-metrics.ts'),
    import('./sender.ts'),
  ]);
  const { post, close } = createPost(target.timeout);
  const sender = createSender({ ...deps, target, post, counters: meter });
  const origin = { version, resource: resourceOf(env, { version, instance }) };
  // A bug in one source must not stop the push of all others.
  const failed = ({ account }: Source, error: unknown) =>
    log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
  const pushed =
    before?.pushed ?? createPushedMetrics({ ...deps, origin, refresh: process.refresh, items: meter.items, failed });
  const loops = {
    enqueue: (signal: AbortSignal) => pushed.enqueue(shown(), sender, signal),
    send: (signal: AbortSignal) => pushed.send(sender, signal),
  };
  let isClosed = false;
  return {
    id,
    loops,
    pushed,
    sources: [meter.source],
    trouble: sender.trouble,
    async close(next) {
      if (isClosed) return;
      isClosed = true;
      const never = new AbortController().signal;
      const pushAll = (signal: AbortSignal) => loops.enqueue(signal).then(() => loops.send(signal));
      const finish = (signal: AbortSignal) => unlessAborted(pushAll(signal), signal);
      if (next?.pushed !== pushed) await withDeadline(MAX_FLUSH_MS, never, finish).catch(() => undefined);
      await close();
    },
  };
}
