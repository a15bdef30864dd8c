import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CliProcess, startCli } from './cli.ts';
import { afterThisTest } from './client.ts';
import { newFolder } from './folder.ts';

export interface Agent {
  /** Of configuration and store. */
  readonly folder: string;
  readonly configFile: string;
  readonly store: string;
  /** Its address, as its log tells it; undefined until then. */
  readonly url: string | undefined;
  /** The process that was started last. */
  readonly process: CliProcess;
  /** Starts it, also once more after its end; gives its address. */
  start(): Promise<string>;
  /** Starts it and waits for nothing. */
  launch(): CliProcess;
  /** Ends it; gives the exit code, or the signal that ended it. */
  end(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals>;
}

/**
 * The real agent in a process of its own, which can be killed and started again, with its configuration and store in an empty
 * folder. Both go with the test. It listens at a port of its own, unless the configuration says otherwise.
 */
export function createAgent(config: object, env: Readonly<Record<string, string>> = {}): Agent {
  const folder = newFolder();
  const [configFile, store] = [join(folder, 'config.yaml'), join(folder, 'store.db')];
  writeFileSync(configFile, JSON.stringify({ server: { listen: '127.0.0.1:0' }, store: { path: store }, ...config }));
  let running: CliProcess | undefined;
  const current = () => {
    if (!running) throw new Error('the agent was not started');
    return running;
  };
  async function end(signal: NodeJS.Signals = 'SIGKILL') {
    current().kill(signal);
    return current().ended;
  }
  afterThisTest(async () => void (running && (await end())));
  function launch() {
    running = startCli(['serve', '--config', configFile], env);
    return running;
  }
  return {
    folder,
    configFile,
    store,
    get url() {
      return /"url":"([^"]+)"/.exec(current().stderr())?.[1];
    },
    get process() {
      return current();
    },
    async start() {
      const [, url = ''] = await launch().says(/"url":"([^"]+)"/);
      return url;
    },
    launch,
    end,
  };
}

/** An account of the configuration whose budget limits nothing; its token is in DELIVERY_TOKEN. */
export const unlimited = (name: string, baseUrl: string) => ({
  name,
  baseUrl,
  token: { env: 'DELIVERY_TOKEN' },
  budget: { requestsPerSecond: 5000, burst: 5000, concurrency: 8, requestsPerDay: 10_000_000 },
});
