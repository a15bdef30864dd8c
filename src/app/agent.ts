import type { LoadedConfig } from '../config/load.ts';
import { parseListen } from '../http/options.ts';
import { type Served, startHttpServer } from '../http/server.ts';
import { createClosing } from '../kit/closing.ts';
import { CONTENT_TYPES, createExposition } from '../metrics/exposition.ts';
import type { AccountStatus } from '../model/status.ts';
import { runLoop } from '../scheduler/loop.ts';
import { createParts, type PartsDeps } from './parts.ts';
import { version } from './version.ts';

export interface Agent {
  /** `http://host:port` of the status page. */
  readonly url: string;
  status(): readonly AccountStatus[];
  /** Ends the loops, aborting what is under way, and closes everything in reverse order. */
  close(): Promise<void>;
}

/** First starts are spread over this many milliseconds an account, so that a thousand accounts do not start at once. */
const START_SPREAD = 30;

/** What is spent of the budgets is stored so often, milliseconds. */
const SAVE_EVERY = 15_000;

/** Builds every part and starts the loops. Throws, with nothing left open, when a part can't be had. */
export async function startAgent(loaded: LoadedConfig, deps: PartsDeps): Promise<Agent> {
  const { config } = loaded;
  const { clock, random } = deps;
  const closing = createClosing();
  try {
    const { log, process, accounts, save } = await createParts(loaded, deps, closing);
    const sources = [...accounts.flatMap(({ sources }) => sources), process.source];
    // One bug must not cost everybody's scrape.
    const exposition = createExposition(sources, ({ account }, error) =>
      log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
    );
    const status = () => accounts.map(account => account.status());
    const served: Served = {
      version,
      externalUrl: config.server.externalUrl,
      accounts: config.accounts.map(({ name }) => name),
      async exposition(scope, format, gzip) {
        if (typeof scope === 'string') await process.refresh();
        return { contentType: CONTENT_TYPES[format], body: await exposition.renderInSlices({ scope, format, gzip }) };
      },
      status,
      clock,
    };
    // The port first: an agent that can't be scraped shall not call the service either.
    const server = await startHttpServer(parseListen(config.server.listen), served, log);
    closing.add('port', () => server.close());

    // One controller a loop: a listener on a signal costs as much as it has listeners, and each sleep adds one.
    const stops: AbortController[] = [];
    const spread = config.accounts.length * START_SPREAD;
    const loop = (every: number, firstDelay: number, body: (signal: AbortSignal) => Promise<void>) => {
      const stop = new AbortController();
      stops.push(stop);
      return runLoop({ every, firstDelay, clock, random, signal: stop.signal, body });
    };
    const loops = accounts.flatMap(({ rounds }) =>
      rounds.map(({ round, every, run }) =>
        loop(every, random() * Math.min(every, spread), signal => run(round, signal)),
      ),
    );
    loops.push(loop(SAVE_EVERY, SAVE_EVERY, save));
    closing.add('loops', () => {
      for (const stop of stops) stop.abort();
      return Promise.all(loops);
    });
    log.info({ version, url: server.url, accounts: accounts.length }, 'delivery-watch is listening');
    return {
      url: server.url,
      status,
      async close() {
        log.info({}, 'stopping');
        await closing.close();
        log.info({}, 'stopped');
      },
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}
