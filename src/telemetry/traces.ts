import { unlessAborted, withDeadline } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import { identityOf } from '../kit/identity.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Env } from '../kit/secret.ts';
import type { MessageSpans } from '../model/message-span.ts';
import { isDisabled, type TracingOptions } from './options.ts';
import { disableTracing } from './tracing.ts';

export interface PreparedTraces {
  readonly id: string;
  /** Queues spans of messages; undefined if messages are not traced. */
  readonly messageSpans: MessageSpans | undefined;
  activate(): void;
  /** Sends pending spans within `MAX_FLUSH_MS`. */
  close(): Promise<void>;
}

interface TracesDeps extends Pick<Runtime, 'env' | 'log'> {
  readonly spans: Counter<'outcome'>;
}

/** Time limit of a flush (ms). Unsent spans are dropped. */
const MAX_FLUSH_MS = 3000;

const isTraced = ({ enabled }: TracingOptions, env: Env) => enabled && !isDisabled(env);

export const tracesMessages = (options: TracingOptions, env: Env) => isTraced(options, env) && options.messages;

/** Exports traces of the agent and spans of messages over OTLP. */
export class Traces {
  readonly #deps: TracesDeps;
  #current: PreparedTraces | undefined;
  /** Resolves when all replaced traces are closed. */
  #replaced: Promise<unknown> = Promise.resolve();

  constructor(deps: TracesDeps) {
    this.#deps = deps;
  }

  get messageSpans(): MessageSpans | undefined {
    return this.#current?.messageSpans;
  }

  /**
   * Creates the traces for a configuration, or returns the current ones if unchanged. `instance`: host and port of this process,
   * as in its metrics. Rejects with an Error if a setting is unsupported.
   */
  async prepare(options: TracingOptions, instance: string): Promise<PreparedTraces> {
    const { env } = this.#deps;
    const isOn = isTraced(options, env);
    const id = identityOf([isOn, options, instance]);
    const before = this.#current;
    if (before?.id === id) return before;
    const sdk = isOn && (await (await import('./sdk.ts')).prepareSdk({ ...this.#deps, options, instance }));
    return {
      id,
      messageSpans: sdk && options.messages ? sdk.sendMessageSpans : undefined,
      activate() {
        if (sdk) sdk.start();
        else if (before) disableTracing();
      },
      async close() {
        if (!sdk) return;
        const never = new AbortController().signal;
        await withDeadline(MAX_FLUSH_MS, never, deadline => unlessAborted(sdk.shutdown(), deadline)).catch(
          () => undefined,
        );
      },
    };
  }

  /** Switches to prepared traces, and closes the earlier ones in the background. */
  use(prepared: PreparedTraces): void {
    if (prepared === this.#current) return;
    this.#replaced = Promise.all([this.#replaced, this.#current?.close()]);
    this.#current = prepared;
    prepared.activate();
  }

  /** Sends pending spans, including spans of replaced traces. */
  async close(): Promise<void> {
    await Promise.all([this.#replaced, this.#current?.close()]);
  }
}
