import type { Config } from '../config/schema.ts';
import { createLoopSlot } from '../scheduler/loop-slot.ts';
import { openTraces, type Traces, type TracesDeps } from '../telemetry/message-traces.ts';

/** Interval between exports of message traces (ms). */
const LIFECYCLES_EVERY = 2000;

/** Exports traces over OTLP. Queues survive a reload. */
export class Exporting {
  readonly #deps: Omit<TracesDeps, 'config'>;
  readonly #lifecycles;
  #current: Traces | undefined;
  #replaced: Traces[] = [];

  constructor(deps: Omit<TracesDeps, 'config' | 'queues'>) {
    this.#deps = { ...deps, queues: new Map() };
    this.#lifecycles = createLoopSlot(deps);
  }

  /** Creates the traces for a configuration, or returns the current ones if unchanged. Rejects if a setting is unsupported. */
  prepare(config: Config): Promise<Traces> {
    return openTraces({ ...this.#deps, config }, this.#current);
  }

  /** Switches to prepared traces. `closeReplaced` closes the earlier ones. */
  use(prepared: Traces): void {
    if (prepared === this.#current) return;
    if (this.#current) this.#replaced.push(this.#current);
    this.#current = prepared;
    prepared.activate();
  }

  async start(): Promise<void> {
    const { exportMessages } = this.current;
    await this.#lifecycles.run(
      this.current,
      exportMessages && { every: LIFECYCLES_EVERY, firstDelay: LIFECYCLES_EVERY, body: exportMessages },
    );
  }

  async discard(prepared: Traces): Promise<void> {
    if (prepared !== this.#current) await prepared.close();
  }

  async closeReplaced(): Promise<void> {
    for (const replaced of this.#replaced.splice(0)) await replaced.close();
  }

  get current(): Traces {
    if (!this.#current) throw new Error('no traces are in use');
    return this.#current;
  }

  async stop(): Promise<void> {
    await this.#lifecycles.close();
  }

  /** Sends pending spans and closes the traces. */
  async close(): Promise<void> {
    await this.current.close();
  }
}
