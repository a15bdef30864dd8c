import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CliProcess, startCli } from '../support/cli.ts';
import type { FleetAccount } from './fleet.ts';
import { WELL } from './well-service.ts';

/** The real agent, in a process of its own. */
export interface AgentProcess extends CliProcess {
  readonly url: string;
  /** Ends it at once if it has not ended, and removes its configuration. */
  close(): Promise<void>;
}

/** Starts the agent with these accounts; it reads each list every so many seconds, and the whole queue in twice the time. */
export async function startAgentProcess(accounts: readonly FleetAccount[], seconds: number): Promise<AgentProcess> {
  const [every, rescanEvery] = [`${seconds}s`, `${2 * seconds}s`];
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-hostile-'));
  const file = join(folder, 'config.yaml');
  const config = {
    server: { listen: '127.0.0.1:0' },
    store: { kind: 'memory' },
    // What is well must answer within it, on a busy machine, too.
    upstream: { connectTimeout: '2s', timeout: '8s' },
    accounts,
    collect: { flowControl: { every }, dlq: { every, rescanEvery }, events: { every, window: `${WELL.window}s` } },
    // Sharing two processors with the whole fleet may cost a well account some rounds.
    staleness: { markAfter: 10 },
  };
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  const agent = startCli(['serve', '--config', file]);
  async function close(): Promise<void> {
    agent.kill('SIGKILL');
    await agent.ended;
    rmSync(folder, { recursive: true, force: true });
  }
  try {
    return { ...agent, url: await agent.listensAt(), close };
  } catch (error) {
    await close();
    throw error;
  }
}
