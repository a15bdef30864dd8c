import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CliProcess, startCli } from '../support/cli.ts';
import type { FleetAccount } from './fleet.ts';
import { HEALTHY } from './healthy-service.ts';

/** The real agent in a separate process. */
export interface AgentProcess extends CliProcess {
  readonly url: string;
  /** Kills the process if it is still running, and deletes its configuration. */
  close(): Promise<void>;
}

/** Starts the agent. It polls each list every `seconds` seconds and walks the DLQ half as often. */
export async function startAgentProcess(accounts: readonly FleetAccount[], seconds: number): Promise<AgentProcess> {
  const [every, rescanEvery] = [`${seconds}s`, `${2 * seconds}s`];
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-hostile-'));
  const file = join(folder, 'config.yaml');
  const config = {
    server: { listen: '127.0.0.1:0' },
    store: { kind: 'memory' },
    // Healthy services must respond within this timeout even on a busy machine.
    upstream: { connectTimeout: '2s', timeout: '8s' },
    accounts,
    collect: { flowControl: { every }, dlq: { every, rescanEvery }, events: { every, window: `${HEALTHY.window}s` } },
    // A healthy account may miss rounds, because all services run on the same machine.
    staleness: { markAfter: 10 },
  };
  // JSON is valid YAML.
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
