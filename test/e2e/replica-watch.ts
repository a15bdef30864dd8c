import { setTimeout as sleep } from 'node:timers/promises';
import { afterThisTest } from '../support/client.ts';
import { atThisLoad } from '../support/eventually.ts';
import { watchCounters } from '../support/replica-checks.ts';
import type { ReplicaProcess, Scene } from './replica-scene.ts';

/** Names of account counters, which are stored and must never decrease. Process counters reset with the process. */
const STORED = /^delivery_(?!watch_|auto_cancel_)/;
const LEADER = 'delivery_watch_leader{';

interface ReplicaMetrics {
  /** Stored counters by series. */
  readonly counters: ReadonlyMap<string, number>;
  /** Accounts that the process shows as the leader. */
  readonly held: ReadonlySet<string>;
  /** Remaining daily requests by account. */
  readonly remaining: ReadonlyMap<string, number>;
}

const accountIn = (series: string) => /account="([^"]*)"/.exec(series)?.[1] ?? '';

/** Parses a thousand lines per millisecond. The general parser would dominate the test's run time. */
function parseMetrics(text: string): ReplicaMetrics {
  const counters = new Map<string, number>();
  let isLeader = false;
  const remaining = new Map<string, number>();
  let isStored = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('# TYPE ')) {
      const [, , name = '', type] = line.split(' ');
      isStored = STORED.test(name) && (type === 'counter' || type === 'histogram');
    } else if (line.startsWith('#') || line === '') continue;
    else {
      const at = line.lastIndexOf(' ');
      const [series, value] = [line.slice(0, at), Number(line.slice(at + 1))];
      if (isStored) counters.set(series, value);
      else if (series.startsWith(LEADER)) isLeader = value === 1;
      else if (series.startsWith('delivery_watch_api_budget_remaining')) remaining.set(accountIn(series), value);
    }
  }
  return { counters, held: new Set(isLeader ? remaining.keys() : []), remaining };
}

export async function scrapeReplica({ agent }: ReplicaProcess): Promise<ReplicaMetrics> {
  return parseMetrics(await agent.get('/metrics'));
}

/** Maximum time between the end of a process's connections and its exit (ms). */
const EXIT_WITHIN = 10_000;

/** Scrapes each running replica every second, and compares counters, until the test ends. */
export function watchReplicas(scene: Scene) {
  const counters = watchCounters();
  let scrapes = 0;
  const scraping = new Set<string>();

  async function scrape(replica: ReplicaProcess): Promise<void> {
    const { name } = replica;
    if (scraping.has(name)) return;
    scraping.add(name);
    const known = counters.mark();
    try {
      const shown = await scrapeReplica(replica);
      scrapes += 1;
      counters.saw(name, shown.counters, known);
    } catch (error) {
      // Ignore the error if the replica was killed, is starting, or has closed its connections and is about to exit.
      const { ended } = replica.agent.process;
      await Promise.race([ended, sleep(atThisLoad(EXIT_WITHIN))]);
      if (scene.running().includes(replica)) throw error;
    } finally {
      scraping.delete(name);
    }
  }
  const failures: unknown[] = [];
  const timer = setInterval(() => {
    for (const replica of scene.running()) void scrape(replica).catch(error => failures.push(error));
  }, 1000);
  afterThisTest(async () => clearInterval(timer));

  /** Returns the leaders that show each account. */
  async function holders(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>(scene.names.map(name => [name, []]));
    for (const replica of scene.running()) {
      for (const account of (await scrapeReplica(replica)).held) found.get(account)?.push(replica.name);
    }
    return found;
  }
  return {
    counters,
    failures,
    holders,
    get scrapes() {
      return scrapes;
    },
  };
}
