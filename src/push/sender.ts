import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { createRetry } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import { retryAfterMs } from '../kit/retry-after.ts';
import type { Signal, Target } from './target.ts';

/** Sends one POST. No redirect is followed. Rejects where there is no answer in time. */
export type PostBytes = (
  url: string,
  request: {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Uint8Array;
    readonly signal: AbortSignal;
  },
) => Promise<{
  readonly status: number;
  readonly retryAfter?: string | undefined;
  /** The begin of the body, a character a byte. */
  readonly text: string;
}>;

/** What a push counts. Items are data points, or log records. */
export interface PushCounters {
  /** `accepted`; `refused`: not to be sent again; `failed`: it is sent again. */
  readonly requests: Counter<'signal' | 'outcome'>;
  /** `exported`; `rejected`: by the receiver; `dropped`: there was no room to wait. */
  readonly items: Counter<'signal' | 'outcome'>;
}

/** A protobuf body: `Export…ServiceRequest`. */
export interface Packet {
  readonly body: Uint8Array;
  /** Data points or log records in it. */
  readonly items: number;
  /** What `packed` made of it. */
  readonly isPacked?: boolean;
}

/** What came of a request. `refused`: the receiver will not take it later, either. `failed`: it may be sent again when it is due. */
export interface Answer {
  readonly outcome: 'accepted' | 'refused' | 'failed';
  /** Undefined where there was no answer. */
  readonly status?: number;
}

/** One signal's way to its receiver. */
export interface Sender {
  /** Whether the wait after the last failure is over. */
  isDue(): boolean;
  /** Compressed, where that is asked for. */
  packed(packet: Packet): Promise<Packet>;
  /** Sends, counts, and logs when the receiver ceases and begins to accept. Rejects only when the signal is aborted. */
  send(packet: Packet, signal: AbortSignal): Promise<Answer>;
  /**
   * What is wrong with the receiver, and since when (milliseconds since the Unix epoch); undefined where nothing is, and where it
   * refused log records a quarter of an hour ago, and was sent none since.
   */
  trouble(): { readonly since: number; readonly reason: string } | undefined;
}

export interface SenderDeps {
  readonly signal: Signal;
  readonly target: Target;
  readonly post: PostBytes;
  /** Statuses by which the receiver will not take this later, either; default: those that OTLP does not let a client try again. */
  readonly isFinal?: (status: number) => boolean;
  readonly counters: PushCounters;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** The statuses that OTLP lets a client try again. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const BACKOFF = { first: 1000, longest: 60_000 };

/**
 * For so long, milliseconds, a refusal of log records counts where none were sent since. What waits behind them is sent within a
 * minute: then nothing waits.
 */
const REFUSAL_ENDS = 900_000;

const pack = promisify(gzip);

/** Items that a receiver says it did not take of a request that it accepted: `partial_success` of OTLP's answers. */
export function rejectedItems(answer: Uint8Array): number {
  try {
    const reader = new BinaryReader(answer);
    while (reader.pos < reader.len) {
      const [field, wireType] = reader.tag();
      if (field !== 1) {
        reader.skip(wireType);
        continue;
      }
      const end = reader.uint32() + reader.pos;
      while (reader.pos < Math.min(end, reader.len)) {
        const [inner, innerType] = reader.tag();
        if (inner === 1) return Math.max(0, Number(reader.int64()));
        reader.skip(innerType);
      }
    }
  } catch {
    // Something else than OTLP's answer: the status alone counts.
  }
  return 0;
}

/** Why there was no answer: never the message, which may hold the address, and that a secret. */
function reasonOf(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: string };
  return typeof code === 'string' ? code : (name ?? 'error');
}

export function createSender(deps: SenderDeps): Sender {
  const { signal: about, target, post, counters, clock, random, log } = deps;
  const { isFinal = status => !RETRYABLE.has(status) } = deps;
  const retry = createRetry(BACKOFF, clock, random);
  let last: { readonly since: number; readonly reason: string; readonly endsAt: number } | undefined;

  const trouble = () => (last && clock.monotonic() < last.endsAt ? last : undefined);

  /** `isKept`: what was not accepted waits, and is sent again. */
  function troubled(reason: string, isKept: boolean): void {
    const known = trouble();
    if (!known) log.warn({ signal: about, reason }, 'the OTLP receiver does not accept what is pushed');
    // Metrics are sent again anyway, and that tells.
    const isToldSoon = isKept || about === 'metrics';
    const endsAt = isToldSoon ? Number.POSITIVE_INFINITY : clock.monotonic() + REFUSAL_ENDS;
    last = { since: known?.since ?? clock.now(), reason, endsAt };
  }

  function healthy(): void {
    if (trouble()) log.info({ signal: about }, 'the OTLP receiver accepts what is pushed again');
    last = undefined;
  }

  function accepted({ items }: Packet, text: string): void {
    const rejected = Math.min(items, text === '' ? 0 : rejectedItems(Buffer.from(text, 'latin1')));
    counters.items.inc({ signal: about, outcome: 'exported' }, items - rejected);
    if (rejected > 0) counters.items.inc({ signal: about, outcome: 'rejected' }, rejected);
    retry.succeeded();
    if (rejected > 0) troubled('partial success', false);
    else healthy();
  }

  function answered({ status, retryAfter, text }: Awaited<ReturnType<PostBytes>>, packet: Packet): Answer['outcome'] {
    if (status >= 200 && status < 300) {
      accepted(packet, text);
      return 'accepted';
    }
    const isRefused = isFinal(status);
    troubled(`status ${status}`, !isRefused);
    if (!isRefused) {
      retry.failed(retryAfterMs(retryAfter, clock.now()));
      return 'failed';
    }
    counters.items.inc({ signal: about, outcome: 'rejected' }, packet.items);
    // Another may be taken, but not at once: an address or a key is wrong for all of them.
    retry.failed();
    return 'refused';
  }

  async function packed(packet: Packet): Promise<Packet> {
    if (packet.isPacked || !target.isGzipped) return packet;
    return { ...packet, body: await pack(packet.body), isPacked: true };
  }

  return {
    isDue: retry.isDue,
    packed,
    trouble() {
      const now = trouble();
      return now && { since: now.since, reason: now.reason };
    },
    async send(packet, signal) {
      const { body, isPacked } = await packed(packet);
      const headers = {
        ...target.headers,
        'content-type': 'application/x-protobuf',
        ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
      };
      try {
        const reply = await post(target.url, { headers, body, signal });
        const outcome = answered(reply, packet);
        counters.requests.inc({ signal: about, outcome });
        return { outcome, status: reply.status };
      } catch (error) {
        if (signal.aborted) throw error;
        troubled(reasonOf(error), true);
        retry.failed();
        counters.requests.inc({ signal: about, outcome: 'failed' });
        return { outcome: 'failed' };
      }
    },
  };
}
