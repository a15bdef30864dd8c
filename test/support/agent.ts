import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CliProcess, startCli } from './cli.ts';
import { afterThisTest } from './client.ts';
import { newFolder } from './folder.ts';
import { type ParsedFamily, parseExposition } from './parse-exposition.ts';

export interface Agent {
  /** Folder with the configuration and the store. */
  readonly folder: string;
  readonly configFile: string;
  readonly store: string;
  /** URL of the agent, read from its log; empty until it listens. */
  readonly url: string;
  /** The most recently started process. */
  readonly process: CliProcess;
  /** Starts or restarts the agent and returns its URL. */
  start(): Promise<string>;
  /** Starts the agent without waiting until it listens. */
  launch(): CliProcess;
  /** Stops the agent. Returns the exit code, or the signal that ended it. */
  end(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals>;
  /** Requests a path and returns the response body. */
  get(path: string): Promise<string>;
  scrape(): Promise<Scrape>;
  /** Returns the value of the first sample in /metrics with this name and at least these labels. */
  value(name: string, labels?: Labels): Promise<number | undefined>;
}

type Labels = Readonly<Record<string, string>>;

export interface Scrape {
  readonly families: readonly ParsedFamily[];
  /** Returns the samples with this name and at least these labels. */
  samples(name: string, labels?: Labels): ParsedFamily['samples'];
  /** Returns the sum of the samples with this name and at least these labels, or undefined without such samples. */
  sum(name: string, labels?: Labels): number | undefined;
}

/** Reads and parses /metrics of the agent at `url`. */
export async function scrape(url: string): Promise<Scrape> {
  const families = parseExposition(await (await fetch(`${url}/metrics`)).text(), 'text');
  const all = families.flatMap(({ samples }) => samples);
  const samples: Scrape['samples'] = (name, labels = {}) =>
    all
      .filter(sample => sample.name === name)
      .filter(sample => Object.entries(labels).every(([label, value]) => sample.labels[label] === value));
  return {
    families,
    samples,
    sum: (name, labels) =>
      samples(name, labels).reduce<number | undefined>((sum, { value }) => (sum ?? 0) + value, undefined),
  };
}

/**
 * Creates an agent that runs as a separate process and can be killed and restarted. Its configuration and store are in
 * a temporary folder, which is deleted after the test. It listens on a free port by default.
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
  const addressOf = (agent: CliProcess) => /"url":"([^"]+)"/.exec(agent.stderr())?.[1] ?? '';
  const get = async (path: string) => (await fetch(addressOf(current()) + path)).text();
  return {
    folder,
    configFile,
    store,
    get,
    scrape: () => scrape(addressOf(current())),
    value: async (name, labels) => (await scrape(addressOf(current()))).samples(name, labels)[0]?.value,
    get url() {
      return addressOf(current());
    },
    get process() {
      return current();
    },
    async start() {
      return launch().listensAt();
    },
    launch,
    end,
  };
}

/** Starts an agent with `token` in DELIVERY_TOKEN and waits until it listens. */
export async function startAgent(config: object, token = 'token-canary'): Promise<Agent> {
  const agent = createAgent(config, { DELIVERY_TOKEN: token });
  await agent.start();
  return agent;
}

/** Account settings with an effectively unlimited budget and the token from DELIVERY_TOKEN. */
export const unlimited = (name: string, baseUrl: string) => ({
  name,
  baseUrl,
  token: { env: 'DELIVERY_TOKEN' },
  budget: { requestsPerSecond: 5000, burst: 5000, concurrency: 8, requestsPerDay: 10_000_000 },
});
