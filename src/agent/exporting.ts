import type { Config } from '../config/schema.ts';
import { createPushMeter } from '../metrics/push.ts';
import { openPush, type Push, type PushDeps } from '../push/push.ts';
import { createLoopSlot } from '../scheduler/loop-slot.ts';
import { openTraces, type Traces, type TracesDeps } from '../telemetry/message-traces.ts';

export interface Exports {
  readonly traces: Traces;
  readonly push: Push;
}

/** Interval between exports of message traces (ms). */
const LIFECYCLES_EVERY = 2000;
const SEND_EVERY = 1000;

async function closeUnlessShared({ traces, push }: Exports, other?: Exports): Promise<void> {
  if (traces !== other?.traces) await traces.close();
  if (push !== other?.push) await push.close(other?.push);
}

/** Exports traces and metrics over OTLP. Queues and counters survive a reload. */
export class Exporting {
  readonly #deps: Omit<TracesDeps & PushDeps, 'config'>;
  readonly #loops;
  #current: Exports | undefined;
  #replaced: Exports[] = [];

  constructor(deps: Omit<TracesDeps & PushDeps, 'config' | 'queues' | 'meter'>) {
    this.#deps = { ...deps, queues: new Map(), meter: createPushMeter(deps.clock.now) };
    this.#loops = { lifecycles: createLoopSlot(deps), enqueue: createLoopSlot(deps), send: createLoopSlot(deps) };
  }

  /** Creates the exports for a configuration and reuses unchanged ones. Rejects if a setting is unsupported. */
  async prepare(config: Config): Promise<Exports> {
    const deps = { ...this.#deps, config };
    const traces = await openTraces(deps, this.#current?.traces);
    try {
      return { traces, push: await openPush(deps, this.#current?.push) };
    } catch (error) {
      if (traces !== this.#current?.traces) await traces.close();
      throw error;
    }
  }

  /** Switches to prepared exports. `closeReplaced` closes the earlier ones. */
  use(prepared: Exports): void {
    const before = this.#current;
    if (before) this.#replaced.push(before);
    this.#current = prepared;
    if (prepared.traces !== before?.traces) prepared.traces.activate();
  }

  async start(config: Config, random: () => number): Promise<void> {
    const { traces, push } = this.current;
    const { exportMessages } = traces;
    const { every } = config.push.metrics;
    const { lifecycles, enqueue, send } = this.#loops;
    await Promise.all([
      lifecycles.run(
        traces,
        exportMessages && { every: LIFECYCLES_EVERY, firstDelay: LIFECYCLES_EVERY, body: exportMessages },
      ),
      // Randomize the start, so that agents started together do not push simultaneously.
      enqueue.run(push, push.loops && { every, firstDelay: every * random(), body: push.loops.enqueue }),
      send.run(push, push.loops && { every: SEND_EVERY, firstDelay: SEND_EVERY, body: push.loops.send }),
    ]);
  }

  discard(prepared: Exports): Promise<void> {
    return closeUnlessShared(prepared, this.#current);
  }

  async closeReplaced(): Promise<void> {
    for (const replaced of this.#replaced.splice(0)) await closeUnlessShared(replaced, this.#current);
  }

  get current(): Exports {
    if (!this.#current) throw new Error('no exports are in use');
    return this.#current;
  }

  async stop(): Promise<void> {
    await Promise.all(Object.values(this.#loops).map(loop => loop.close()));
  }

  /** Flushes and closes all exports concurrently: several receivers may be unresponsive. */
  async close(): Promise<void> {
    await Promise.all([this.current.traces.close(), this.current.push.close()]);
  }
}
