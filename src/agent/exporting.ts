import type { Config } from '../config/schema.ts';
import type { Source } from '../metrics/family.ts';
import { openPushMetrics, type PushMetrics, type PushMetricsDeps } from '../push/push.ts';
import { createLoopSlot, type LoopSlot } from '../scheduler/loop-slot.ts';
import { openTraces, type Traces, type TracesDeps } from '../telemetry/message-traces.ts';

/** What sends traces and metrics for one configuration. */
export interface Exports {
  readonly traces: Traces;
  readonly pushMetrics: PushMetrics;
}

export type ExportingDeps = Omit<TracesDeps & PushMetricsDeps, 'config'>;

/** Interval at which traces of ended messages are sent (ms). */
const LIFECYCLES_EVERY = 2000;
/** Interval at which pending metrics are sent (ms). */
const SEND_EVERY = 1000;

/** Sends traces and metrics to OTLP receivers. */
export class Exporting {
  readonly #deps: ExportingDeps;
  readonly #loops: Readonly<Record<'lifecycles' | 'note' | 'send', LoopSlot>>;
  #current: Exports | undefined;
  #replaced: Exports[] = [];

  constructor(deps: ExportingDeps) {
    this.#deps = deps;
    this.#loops = { lifecycles: createLoopSlot(deps), note: createLoopSlot(deps), send: createLoopSlot(deps) };
  }

  /** Creates what a configuration needs; unchanged sections keep their objects. Rejects with an Error for unsupported settings. */
  async prepare(config: Config): Promise<Exports> {
    const traces = await openTraces({ ...this.#deps, config }, this.#current?.traces);
    try {
      return { traces, pushMetrics: await openPushMetrics({ ...this.#deps, config }, this.#current?.pushMetrics) };
    } catch (error) {
      if (traces.kept !== this.#current?.traces.kept) await traces.close();
      throw error;
    }
  }

  /** Switches to prepared exports. `closeReplaced` closes the earlier ones. */
  use(prepared: Exports): void {
    if (this.#current) this.#replaced.push(this.#current);
    this.#current = prepared;
    prepared.traces.take();
  }

  /** Starts the loops of the current exports, or replaces those that changed. */
  async start(config: Config, random: () => number): Promise<void> {
    const { traces, pushMetrics } = this.#exports();
    const { exportMessages } = traces;
    const { loops } = pushMetrics;
    const { every } = config.push.metrics;
    const { lifecycles, note, send } = this.#loops;
    await Promise.all([
      lifecycles.run(
        traces.kept,
        exportMessages && { every: LIFECYCLES_EVERY, firstDelay: LIFECYCLES_EVERY, body: exportMessages },
      ),
      // Not at the same time as agents that were started together with this one.
      note.run(pushMetrics, loops && { every, firstDelay: every * random(), body: loops.note }),
      send.run(pushMetrics, loops && { every: SEND_EVERY, firstDelay: SEND_EVERY, body: loops.send }),
    ]);
  }

  /** Closes prepared exports that are not used. */
  async discard(prepared: Exports): Promise<void> {
    await closeUnlessKept(prepared, this.#current);
  }

  /** Closes replaced exports and sends what they still have. */
  async closeReplaced(): Promise<void> {
    for (const replaced of this.#replaced.splice(0)) await closeUnlessKept(replaced, this.#current);
  }

  get queue(): Traces['queue'] {
    return account => this.#exports().traces.queue(account);
  }

  get sources(): readonly Source[] {
    return this.#exports().pushMetrics.sources;
  }

  get trouble(): PushMetrics['trouble'] {
    return () => this.#exports().pushMetrics.trouble();
  }

  /** Ends the loops. */
  async stop(): Promise<void> {
    await Promise.all(Object.values(this.#loops).map(loop => loop.close()));
  }

  /** Sends what is pending, all at the same time: none of the receivers may respond. */
  async close(): Promise<void> {
    const { traces, pushMetrics } = this.#exports();
    await Promise.all([traces.close(), pushMetrics.close()]);
  }

  #exports(): Exports {
    if (!this.#current) throw new Error('no exports are in use');
    return this.#current;
  }
}

async function closeUnlessKept({ traces, pushMetrics }: Exports, other: Exports | undefined): Promise<void> {
  if (traces.kept !== other?.traces.kept) await traces.close();
  if (pushMetrics === other?.pushMetrics) return;
  const continues = pushMetrics.kept.pushed === other?.pushMetrics.kept.pushed;
  await (continues ? pushMetrics.leave() : pushMetrics.close());
}
