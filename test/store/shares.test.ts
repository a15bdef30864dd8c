import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { assignAccounts, type Member } from '../../src/store/shares.ts';

const names = (count: number, prefix = 'a') => Array.from({ length: count }, (_, n) => `${prefix}${n}`);
const member = (id: string, accounts: Iterable<string>): Member => ({ id, accounts: new Set(accounts) });

describe('shares', () => {
  it('the only replica is assigned all accounts', () => {
    expect(assignAccounts([member('x', ['b', 'a', ''])], new Map())).toEqual(
      new Map([
        ['', 'x'],
        ['a', 'x'],
        ['b', 'x'],
      ]),
    );
  });

  it('when a replica joins, only the accounts that it receives move', () => {
    const all = ['1', '2', '3', '4', '5'];
    const holders = new Map([...all.slice(0, 3).map(a => [a, 'x'] as const), ['4', 'y'], ['5', 'y']]);
    const plan = assignAccounts(
      ['x', 'y', 'z'].map(id => member(id, all)),
      holders,
    );
    expect(Object.fromEntries(plan)).toEqual({ 1: 'x', 2: 'x', 3: 'z', 4: 'y', 5: 'y' });
  });

  it('accounts held by a replica that is not a member are not assigned', () => {
    const plan = assignAccounts([member('x', ['1', '2'])], new Map([['1', 'gone']]));
    expect(Object.fromEntries(plan)).toEqual({ 2: 'x' });
  });

  it('an account is assigned only to replicas that have it configured', () => {
    const [old, next] = [member('old', ['1', '2']), member('next', ['1', '2', '3', '4', '5', '6'])];
    const plan = assignAccounts([old, next], new Map());
    expect([...plan].filter(([, id]) => id === 'old')).toHaveLength(2);
    expect(plan.size).toBe(6);
  });

  it('a replica that requests no accounts is assigned none', () => {
    const plan = assignAccounts([member('ends', []), member('stays', ['1', '2'])], new Map([['1', 'ends']]));
    expect(Object.fromEntries(plan)).toEqual({ 1: 'stays', 2: 'stays' });
  });
});

/** Simulates replicas that share a database. Excess accounts are closed after a delay. */
class Cluster {
  readonly configs = new Map<string, ReadonlySet<string>>();
  readonly holders = new Map<string, string>();
  moves = 0;

  join(id: string, accounts: Iterable<string>): void {
    this.configs.set(id, new Set(accounts));
  }

  /** Removes a replica and frees its leases immediately. */
  leave(id: string): void {
    this.configs.delete(id);
    for (const [account, holder] of this.holders) if (holder === id) this.holders.delete(account);
  }

  loadOf = (id: string) => [...this.holders.values()].filter(holder => holder === id).length;

  /**
   * Simulates one renewal: acquires planned accounts and closes excess ones selected by `closes`. Returns whether
   * anything changed.
   */
  renew(id: string, closes: (account: string) => boolean): boolean {
    const members = [...this.configs].map(([each, accounts]) => ({ id: each, accounts }));
    const plan = assignAccounts(members, this.holders);
    let changed = false;
    for (const [account, holder] of this.holders) {
      if (holder !== id || plan.get(account) === id) continue;
      changed = true;
      if (!closes(account)) continue;
      this.holders.delete(account);
      this.moves += 1;
    }
    for (const [account, planned] of plan) {
      if (planned !== id || this.holders.has(account)) continue;
      this.holders.set(account, id);
      changed = true;
    }
    return changed;
  }

  /** Renews in random order until nothing changes. Throws if 100 rounds do not suffice. */
  settle(chance: () => number): void {
    for (let round = 0; round < 100; round += 1) {
      const order = [...this.configs.keys()].sort(() => chance() - 0.5);
      const closes = () => round > 20 || chance() < 0.5;
      if (!order.map(id => this.renew(id, closes)).includes(true)) return;
    }
    throw new Error('accounts keep moving');
  }

  /**
   * Returns the minimum number of moves that lead to an even distribution, if all replicas have the same configuration. If the
   * accounts cannot be divided evenly, the most loaded replicas keep one more account each.
   */
  leastMoves(): number {
    const accounts = new Set([...this.configs.values()].flatMap(each => [...each]));
    const size = this.configs.size;
    const loads = [...this.configs.keys()].map(id => this.loadOf(id)).sort((a, b) => b - a);
    const share = (at: number) => Math.floor(accounts.size / size) + (at < accounts.size % size ? 1 : 0);
    return loads.reduce((sum, load, at) => sum + Math.max(0, load - share(at)), 0);
  }
}

const POOL = names(30);
const IDS = names(8, 'r');
const event = fc.oneof(
  fc.record({ join: fc.constantFrom(...IDS) }),
  fc.record({ leave: fc.constantFrom(...IDS) }),
  fc.record({ configure: fc.subarray(POOL) }),
);
const seeded = (seed: number) => {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
};

function apply(cluster: Cluster, next: { join?: string; leave?: string }, accounts: Iterable<string>): void {
  if (next.join !== undefined) cluster.join(next.join, accounts);
  if (next.leave !== undefined) cluster.leave(next.leave);
}

describe('random sequences of joining and leaving replicas', () => {
  it('replicas share accounts evenly, with the fewest moves, after any sequence of joins and leaves', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), fc.integer(), (events, seed) => {
        const cluster = new Cluster();
        const chance = seeded(seed);
        let accounts: readonly string[] = POOL;
        for (const next of events) {
          if ('configure' in next) {
            accounts = next.configure;
            for (const id of cluster.configs.keys()) cluster.join(id, accounts);
            cluster.settle(chance);
          } else apply(cluster, next, accounts);
          const least = cluster.leastMoves();
          cluster.moves = 0;
          cluster.settle(chance);
          expect(cluster.moves).toBe(cluster.configs.size === 0 ? 0 : least);
          const loads = [...cluster.configs.keys()].map(cluster.loadOf);
          expect(Math.max(0, ...loads) - Math.min(...loads, Infinity)).toBeLessThan(2);
          if (cluster.configs.size > 0) expect([...cluster.holders.keys()].sort()).toEqual([...accounts].sort());
        }
      }),
    );
  });

  it('no account stays without a holder after any sequence of joins and leaves, even if configurations differ', () => {
    const step = fc.record({ id: fc.constantFrom(...IDS), accounts: fc.option(fc.subarray(POOL)) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), fc.integer(), (steps, seed) => {
        const cluster = new Cluster();
        const chance = seeded(seed);
        for (const { id, accounts } of steps) {
          if (accounts) cluster.join(id, accounts);
          else cluster.leave(id);
          // The next event may occur before accounts have settled.
          if (chance() < 0.5) cluster.settle(chance);
        }
        cluster.settle(chance);
        for (const [account, holder] of cluster.holders) expect(cluster.configs.get(holder)).toContain(account);
        const configured = new Set([...cluster.configs.values()].flatMap(accounts => [...accounts]));
        expect([...cluster.holders.keys()].sort()).toEqual([...configured].sort());
        for (const [account, holder] of cluster.holders) {
          for (const [other, accounts] of cluster.configs) {
            if (accounts.has(account)) expect(cluster.loadOf(holder) - cluster.loadOf(other)).toBeLessThan(2);
          }
        }
      }),
    );
  });
});
