import { afterThisTest } from '../support/client.ts';
import { watchCounters } from '../support/replica-judge.ts';
import type { ReplicaProcess, Scene } from './replica-scene.ts';

/** Counters of accounts, which are stored: none of these may ever go back. Those of a process begin with it. */
const STORED = /^delivery_(?!watch_|auto_cancel_)/;
const LEADER = 'delivery_watch_leader{account="';

/** What a replica shows. */
export interface Shown {
  /** Stored counters by series. */
  readonly counters: ReadonlyMap<string, number>;
  /** Accounts that it says it holds. */
  readonly held: ReadonlySet<string>;
  /** Calls that are left of the day, by account. */
  readonly remaining: ReadonlyMap<string, number>;
  readonly bytes: number;
}

const accountIn = (series: string) => /account="([^"]*)"/.exec(series)?.[1] ?? '';

/** A thousand lines a millisecond: the general parser would be the busiest part of the test. */
export function readShown(text: string): Shown {
  const counters = new Map<string, number>();
  const held = new Set<string>();
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
      else if (series.startsWith(LEADER) && value === 1) held.add(accountIn(series));
      else if (series.startsWith('delivery_watch_api_budget_remaining')) remaining.set(accountIn(series), value);
    }
  }
  return { counters, held, remaining, bytes: text.length };
}

export async function look({ agent }: ReplicaProcess): Promise<Shown> {
  return readShown(await agent.get('/metrics'));
}

/** Scrapes all replicas that run once a second, each on its own, until the test ends, and compares. */
export function watchReplicas(scene: Scene) {
  const counters = watchCounters();
  const latest = new Map<string, Shown>();
  let scrapes = 0;
  let isEnded = false;
  const looking = new Set<string>();

  async function scrape(replica: ReplicaProcess): Promise<void> {
    const { name } = replica;
    if (looking.has(name)) return;
    looking.add(name);
    const known = counters.mark();
    try {
      const shown = await look(replica);
      scrapes += 1;
      counters.saw(name, shown.counters, known);
      latest.set(name, shown);
    } catch (error) {
      // It was killed, or is starting.
      if (scene.running().includes(replica)) throw error;
    } finally {
      looking.delete(name);
      if (replica.isEnded) latest.delete(name);
    }
  }
  const failures: unknown[] = [];
  const timer = setInterval(() => {
    for (const replica of scene.running()) void scrape(replica).catch(error => failures.push(error));
  }, 1000);
  afterThisTest(async () => {
    isEnded = true;
    clearInterval(timer);
  });

  /** Which replicas hold each account, as those that run say themselves. */
  async function holders(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>(scene.names.map(name => [name, []]));
    for (const replica of scene.running()) {
      for (const account of (await look(replica)).held) found.get(account)?.push(replica.name);
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
    get isEnded() {
      return isEnded;
    },
    stop: () => clearInterval(timer),
  };
}
