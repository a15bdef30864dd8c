import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import { whenOver } from '../response-limiter.ts';
import type { HttpServed } from '../served.ts';
import { onlyAllow, READ } from './methods.ts';

const MAX_STREAMS = 64;
/** Interval between checks for changes (ms). */
const LOOK_EVERY = 2000;
/**
 * Time after which clients are notified even without a change (ms): data becomes stale, and proxies close silent connections.
 */
const QUIET = 15_000;
const RETRY = 3000;

interface Stream {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** When the client stopped reading (monotonic). */
  unreadSince: number | undefined;
}

/** Streams that notify pages of changes. Pages then fetch their content again. */
export type Streams = ReturnType<typeof createStreams>;

export interface StreamsDeps extends Pick<HttpServed, 'watch' | 'clock'> {
  /** Time within which a client must read the output of a stream (ms). */
  readonly readWithin: number;
  readonly onCut: (request: IncomingMessage) => void;
}

export function createStreams({ watch, clock, readWithin, onCut }: StreamsDeps) {
  const streams = new Set<Stream>();
  let isClosed = false;
  let ticking = new AbortController();

  function send(text: string): void {
    for (const { response } of streams) response.write(text);
  }

  function cutSlow(): void {
    const now = clock.monotonic();
    for (const stream of streams) {
      stream.unreadSince = stream.response.writableLength === 0 ? undefined : (stream.unreadSince ?? now);
      if (stream.unreadSince !== undefined && now - stream.unreadSince > readWithin) {
        onCut(stream.request);
        stream.request.socket.destroy();
      }
    }
  }

  /** Notifies clients of changes while a stream is open. */
  async function tick(signal: AbortSignal): Promise<void> {
    const hasChanged = watch();
    let notifiedAt = clock.monotonic();
    for (;;) {
      await clock.sleep(LOOK_EVERY, signal);
      cutSlow();
      if (!hasChanged() && clock.monotonic() - notifiedAt < QUIET) continue;
      notifiedAt = clock.monotonic();
      send(`event: changed\ndata: ${JSON.stringify({ at: new Date(clock.now()).toISOString() })}\n\n`);
    }
  }

  function start(): void {
    ticking = new AbortController();
    tick(ticking.signal).catch(() => undefined);
  }

  return {
    open(request: IncomingMessage, response: ServerResponse): void {
      if (isClosed || streams.size >= MAX_STREAMS) {
        response.writeHead(503, { 'Content-Type': 'text/plain; charset=utf-8', 'Retry-After': '10' });
        response.end(`there are ${MAX_STREAMS} open streams: no more are opened\n`);
        return;
      }
      response.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-store',
        // End the connection with the stream, so that a port can close.
        Connection: 'close',
        // Otherwise, nginx would buffer events.
        'X-Accel-Buffering': 'no',
      });
      if (request.method === 'HEAD') {
        response.end();
        return;
      }
      const stream = { request, response, unreadSince: undefined };
      streams.add(stream);
      if (streams.size === 1) start();
      whenOver(request, response, () => {
        streams.delete(stream);
        if (streams.size === 0) ticking.abort();
      });
      response.write(`retry: ${RETRY}\n\n`);
    },
    /** Ends all streams and refuses later ones. */
    close(): void {
      isClosed = true;
      ticking.abort();
      for (const { response } of streams) response.end();
    },
  };
}

export function streamRoutes({ open }: Streams): Router {
  return Router()
    .get('/api/v1/stream', (request, response) => open(request, response))
    .all('/api/v1/stream', onlyAllow(READ));
}
