import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Agent, startAgent } from '../../src/agent/agent.ts';
import { loadConfig } from '../../src/config/load.ts';
import { type Clock, systemClock } from '../../src/kit/clock.ts';
import { type Scrape, scrape } from './agent.ts';
import { afterThisTest } from './client.ts';
import { createSharedStore, type SharedStore } from './fake-group.ts';
import { newFolder } from './folder.ts';
import { createManualClock, type ManualClock } from './manual-clock.ts';

/** Lease time (ms). Only tests advance the database's clock, so no lease expires under load. */
export const LEASE = 500;

export interface StartedProcess {
  readonly agent: Agent;
  /** Whether another process leads instead, so that this one must end. */
  readonly isLost: boolean;
  scrape(): Promise<Scrape>;
  /** Replaces the configuration file. */
  write(config: object): void;
}

/** Creates agents in this process that share a database whose clock only the test advances. */
export function createGroup(): {
  readonly database: SharedStore;
  readonly time: ManualClock;
  /** Starts an agent, which is closed after the test. `clock`: clock of its process. */
  start(id: string, config: object, clock?: Clock): Promise<StartedProcess>;
} {
  const time = createManualClock();
  const database = createSharedStore(time, LEASE);
  return {
    database,
    time,
    async start(id, config, clock = systemClock) {
      const file = join(newFolder(), 'config.yaml');
      const common = { server: { listen: '127.0.0.1:0' }, log: { level: 'silent' }, store: { kind: 'memory' } };
      const write = (config: object) => writeFileSync(file, JSON.stringify({ ...common, ...config }));
      write(config);
      const openStore = async () => database.join(id, clock);
      const agent = await startAgent(loadConfig(file, {}), { env: {}, clock, random: Math.random, openStore });
      afterThisTest(() => agent.close());
      database.answersAt(id, agent.url);
      let isLost = false;
      void agent.lost.then(() => {
        isLost = true;
      });
      return {
        agent,
        get isLost() {
          return isLost;
        },
        write,
        scrape: () => scrape(agent.url),
      };
    },
  };
}
