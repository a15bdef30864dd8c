/** A simulated store. Its committed rows outlive the processes that use it. */
import type { Change } from '../../src/model/change.ts';
import { checkChanges } from '../../src/store/changes.ts';
import { StoreError } from '../../src/store/errors.ts';
import { type Guard, NO_ACCOUNT, type Store } from '../../src/store/store.ts';
import { createLeaseRow } from './lease.ts';
import type { Time } from './time.ts';

/** A process that uses the store: an agent or an operator's command. */
export interface Client {
  readonly isAlive: boolean;
  awake(): Promise<void>;
}

/** A process of the agent. */
export interface AgentClient extends Client {
  readonly id: string;
  /** Called before and after each commit. If the process dies during the call, it does nothing afterwards. */
  step(): void;
  monotonic(): number;
  /** Whether this process cannot reach the store, even if other processes can. */
  isCutOff(): boolean;
}

/** A row changed by a commit. */
export interface RowChange {
  readonly account: string;
  readonly key: string;
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** The part of the store that operators' commands use. */
export type OutsideStore = Pick<Store, 'scan' | 'sizes' | 'valuesOf' | 'command' | 'create'>;

export interface Disk {
  /** Time until which commits fail. */
  failsUntil: number;
  /** Duration of each request of an agent (ms), until `slowUntil`. */
  latency: number;
  slowUntil: number;
  rows(account: string): ReadonlyMap<string, string>;
  /**
   * Returns the store for a process of the agent. `isShared`: whether several processes share the store, using a lease. Each commit waits
   * for `committed`, and rejects if `committed` rejects.
   */
  storeFor(
    agent: AgentClient,
    isShared: boolean,
    committed: (account: string, changes: readonly Change[]) => Promise<void>,
  ): Store;
  /**
   * Returns the store for an operator's command. `latency`: time until the command receives a response (ms). `on`: hooks that
   * are called when a request takes effect.
   */
  outsideFor(operator: Client & { readonly latency: number }, on: { read(): void; committed(): void }): OutsideStore;
  readonly counts: { commits: number; refused: number };
}

/** Time until an operator's request takes effect (ms). */
const TO_STORE = 30;

const never = new Promise<never>(() => undefined);

export function createDisk(time: Time, onChange: (change: RowChange) => void): Disk {
  const accounts = new Map<string, Map<string, string>>();
  const counts = { commits: 0, refused: 0 };

  function of(account: string): Map<string, string> {
    const rows = accounts.get(account) ?? new Map<string, string>();
    accounts.set(account, rows);
    return rows;
  }

  const leaseRow = createLeaseRow(time);

  function write(account: string, changes: readonly Change[], guard: Guard | undefined): void {
    if (guard && of(guard.account).get(guard.key) !== guard.value) throw new StoreError('guard_failed', 'the row');
    const rows = of(account);
    for (const { key, value } of changes) {
      onChange({ account, key, before: rows.get(key), after: value ?? undefined });
      if (value === null) rows.delete(key);
      else rows.set(key, value);
    }
  }

  const rowsBelow = (account: string, prefix: string) =>
    new Map([...of(account)].filter(([key]) => key.startsWith(prefix)));
  const sizesBelow = (account: string, prefix: string) =>
    new Map([...rowsBelow(account, prefix)].map(([key, value]) => [key, Buffer.byteLength(value)]));
  const valuesOf = (key: string) =>
    new Map(
      [...accounts].flatMap(([account, rows]) => {
        const value = rows.get(key);
        return value === undefined ? [] : [[account, value] as const];
      }),
    );
  const pass = (ms: number) => new Promise<void>(resolve => void time.after(ms, resolve));

  function refuseIf(isRefused: boolean, reason: 'full' | 'away'): void {
    if (!isRefused) return;
    counts.refused += 1;
    throw new StoreError(reason, 'the store');
  }

  const self: Disk = {
    failsUntil: 0,
    latency: 0,
    slowUntil: 0,
    rows: of,
    counts,
    outsideFor(operator, on) {
      async function request<T>(work: () => T): Promise<T> {
        await pass(TO_STORE);
        if (!operator.isAlive) return never;
        const result = work();
        await pass(operator.latency);
        return operator.isAlive ? result : never;
      }
      function read<T>(work: () => T): Promise<T> {
        return request(() => {
          on.read();
          return work();
        });
      }
      function command(changes: readonly Change[], guard?: Guard): Promise<void> {
        checkChanges(NO_ACCOUNT, changes, guard);
        return request(() => {
          write(NO_ACCOUNT, changes, guard);
          on.committed();
        });
      }
      return {
        scan: (account, prefix) => read(() => rowsBelow(account, prefix)),
        sizes: (account, prefix) => read(() => sizesBelow(account, prefix)),
        valuesOf: key => read(() => valuesOf(key)),
        command,
        create: (key, value) =>
          request(() => {
            if (!of(NO_ACCOUNT).has(key)) write(NO_ACCOUNT, [{ key, value }], undefined);
          }),
      };
    },
    storeFor(agent, isShared, committed) {
      let last: Promise<unknown> = Promise.resolve();
      const isUnavailable = () => agent.isCutOff() || time.now < self.failsUntil;
      const { id, monotonic, awake } = agent;
      const leased = isShared ? leaseRow.of({ id, monotonic, awake, isUnavailable }) : undefined;
      const delayed = () => (time.now < self.slowUntil ? pass(self.latency) : undefined);

      /** Reads rows, which may change before the response arrives. */
      async function read<T>(work: () => T): Promise<T> {
        await agent.awake();
        refuseIf(agent.isCutOff(), 'away');
        const result = work();
        await delayed();
        await agent.awake();
        return agent.isAlive ? result : never;
      }

      async function commit(
        account: string,
        prepare: () => readonly Change[],
        { guard, isFenced = false }: { readonly guard?: Guard | undefined; readonly isFenced?: boolean } = {},
      ): Promise<void> {
        await agent.awake();
        if (!agent.isAlive) return never;
        refuseIf(agent.isCutOff(), 'away');
        refuseIf(time.now < self.failsUntil, 'full');
        await delayed();
        if (!agent.isAlive) return never;
        if (isFenced) leased?.fence();
        agent.step();
        if (!agent.isAlive) return never;
        const changes = prepare();
        write(account, changes, guard);
        counts.commits += 1;
        await committed(account, changes);
        if (!agent.isAlive) return never;
        agent.step();
        await agent.awake();
        if (!agent.isAlive) return never;
      }

      function serialized(work: () => Promise<void>): Promise<void> {
        const turn = last.then(work);
        last = turn.catch(() => undefined);
        return turn;
      }

      return {
        ...(leased && { lease: leased.lease }),
        scan: (account, prefix) => read(() => rowsBelow(account, prefix)),
        sizes: (account, prefix) => read(() => sizesBelow(account, prefix)),
        valuesOf: key => read(() => valuesOf(key)),
        async commit(account, changes, guard) {
          checkChanges(account, changes, guard);
          const own = changes.map(change => ({ ...change }));
          return serialized(() => commit(account, () => own, { guard, isFenced: true }));
        },
        async command(changes, guard) {
          checkChanges(NO_ACCOUNT, changes, guard);
          const own = changes.map(change => ({ ...change }));
          return serialized(() => commit(NO_ACCOUNT, () => own, { guard }));
        },
        create: (key, value) =>
          serialized(() => commit(NO_ACCOUNT, () => (of(NO_ACCOUNT).has(key) ? [] : [{ key, value }]))),
        close: async () => void (await last),
      };
    },
  };
  return self;
}
