import { createHash } from 'node:crypto';
import { identityOf } from '../kit/identity.ts';
import type { Log } from '../kit/log.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { SecretSetting } from '../kit/secret.ts';
import { autoCancelFamilies, autoCancelSamples } from '../metrics/auto-cancel.ts';
import type { Source } from '../metrics/family.ts';
import type { CommandResult, OperatorCommand } from '../model/operator-command.ts';
import type { Sending } from '../notify/sending.ts';
import { createLoopSlot, type LoopSlot } from '../scheduler/loop-slot.ts';
import { StoreError } from '../store/errors.ts';
import { isGuardFailed, type Store } from '../store/store.ts';
import type { Priority, Reader, Writer } from '../upstream/api.ts';
import { type AccountAutoCancel, createAutoCancel, type Explanation } from './account.ts';
import { LEASE_MARGIN } from './attempt.ts';
import { type Brake, createBrake, pauseAutoCancel, resumeAutoCancel, stopLines } from './brake.ts';
import { mayExist } from './context.ts';
import { type JournalLine, newestLines, readJournal } from './journal.ts';
import { type AutoCancelOptions, accountMayAct } from './options.ts';
import { createOrders, orderApproval, resultOf } from './orders.ts';
import { type CallbackSource, walkViewOf } from './tracking.ts';

export type AutoCancel = NonNullable<ReturnType<AutoCancelAccounts['view']>>;

type Body = (signal: AbortSignal) => Promise<void>;

/** Auto-cancel for one account with one policy. */
export interface OpenAutoCancel {
  readonly own: AccountAutoCancel;
  readonly source: Source;
  /** Identity of the settings. If it changes, auto-cancel is reopened. */
  readonly policy: string;
  readonly run: Body;
  start(): void;
  /** Stops the loop and aborts look-ups. Waits for the result of a request in flight. */
  stop(): Promise<void>;
}

/** Settings that auto-cancel depends on. `timeout` is in milliseconds. */
export interface AutoCancelSettings {
  readonly autoCancel: AutoCancelOptions;
  readonly accounts: readonly {
    readonly name: string;
    readonly upstream: { readonly timeout: number };
    readonly actionToken: SecretSetting | null;
  }[];
}

export interface AutoCancelAccountsDeps extends Pick<Runtime, 'clock' | 'random' | 'log' | 'tracer'> {
  readonly store: Store;
  readonly journals: Pick<Sending, 'watch' | 'unwatch'>;
  /** Firing or unknown alerts of an account, by name. */
  readonly alertStates: (account: string) => ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Remaining time of the lease (ms); undefined if no other process uses the store. */
  readonly leaseLeft?: () => number | undefined;
  /** Intervals (ms). `act`: between checks for due work; `orders`: between reads of orders and the brake. */
  readonly intervals: { readonly act: number; readonly orders: number };
}

/** Maximum time that a command waits for its order to be executed (ms). Agents read orders once a second. */
export const ORDER_WAIT = 10_000;

/** Maximum number of journal lines in a response, about 10 MB of JSON. */
export const MAX_LINES = 10_000;

/**
 * Returns all journal lines since a time, oldest first, including pauses and resumes that are not in the journals yet. Blocks
 * the event loop while it parses the lines.
 */
export async function readJournals(
  store: Pick<Store, 'scan'>,
  accounts: readonly string[],
  since: number,
): Promise<JournalLine[]> {
  const lines: JournalLine[] = [];
  const stops = await stopLines(store, Number.POSITIVE_INFINITY);
  for (const account of accounts) {
    const own = await readJournal(store, account);
    const known = new Set(own.map(entry => 'order' in entry && entry.order));
    for (const entry of [...own, ...stops.filter(({ order }) => !known.has(order))]) {
      if (entry.at >= since) lines.push({ account, ...entry });
    }
  }
  return lines.sort((a, b) => a.at - b.at);
}

function createSource({ account, numbers }: AccountAutoCancel): Source {
  const samples = () => autoCancelSamples(numbers());
  return {
    account,
    families: Object.values(autoCancelFamilies),
    revision: () => JSON.stringify([...samples().values()]),
    samples,
  };
}

const policyOf = ({ autoCancel }: AutoCancelSettings) =>
  createHash('sha256').update(JSON.stringify(autoCancel)).digest('hex').slice(0, 16);

const isOn = ({ autoCancel: { mode, rules } }: AutoCancelSettings) => mode !== 'off' && rules.length > 0;

/** Returns the identity of an account's settings for auto-cancel; undefined if auto-cancel is off. */
export function policyFor(config: AutoCancelSettings, account: string): string | undefined {
  if (!isOn(config)) return undefined;
  const own = config.accounts.find(({ name }) => name === account);
  return `${policyOf(config)} ${accountMayAct(config, account) ? identityOf([own?.actionToken]) : 'passive'}`;
}

function openAccount(
  config: AutoCancelSettings,
  account: ActingAccount,
  deps: AutoCancelAccountsDeps,
  brake: Brake,
  before: AccountAutoCancel | undefined,
): Promise<AccountAutoCancel> {
  const { alertStates, store, leaseLeft } = deps;
  const { name } = account;
  const timeout = config.accounts.find(each => each.name === name)?.upstream.timeout ?? 0;
  const leaseTime = store.lease?.leaseTime ?? 0;
  // While renewals succeed, at least a third of the lease time is always left.
  const needed = Math.min(timeout, leaseTime / 3) + LEASE_MARGIN;
  const own = {
    ...deps,
    brake,
    account: name,
    options: config.autoCancel,
    policy: policyOf(config),
    walk: () => walkViewOf(account),
    reader: account.at('look'),
    lastReader: account.at('action'),
    writer: accountMayAct(config, name) ? account.createWriter() : undefined,
    isStopped: () => mayExist(config.autoCancel.stopFile),
    clockSkew: account.serviceClock.largestSkew,
    alertStates: () => alertStates(name),
    lease() {
      const left = leaseLeft?.();
      return left === undefined ? undefined : { left, needed };
    },
    replica: store.lease?.self.id,
  };
  return createAutoCancel(own, before);
}

/** Logs the first of identical consecutive errors, and repetitions at level debug: a store may be unavailable for hours. */
function withErrorLog(log: Log, what: string, work: Body): Body {
  let last: string | undefined;
  return async signal => {
    try {
      await work(signal);
      last = undefined;
    } catch (thrown) {
      if (signal.aborted) return;
      const error = String(thrown);
      const kind = thrown instanceof StoreError ? thrown.name : error;
      log[kind === last ? 'debug' : 'error']({ error }, what);
      last = kind;
    }
  };
}

function commandOf({
  brake,
  ...deps
}: Parameters<typeof orderApproval>[1] & {
  readonly store: Store;
  readonly brake: Brake;
}) {
  const { store, accounts, clock } = deps;
  const stopped = async (before: { at: number; by: string; reason: string } | undefined): Promise<CommandResult> => {
    // Refresh the copy in memory, which views read.
    await brake.read();
    return { ok: true, result: { accounts, ...(before && { before }) } };
  };
  return async (command: OperatorCommand, signal: AbortSignal): Promise<CommandResult> => {
    switch (command.kind) {
      case 'pause':
        return stopped(await pauseAutoCancel(store, command, { clock, signal, waiting: () => undefined }));
      case 'resume':
        try {
          return await stopped(await resumeAutoCancel(store, command, clock));
        } catch (error) {
          if (isGuardFailed(error)) return { ok: false, why: RESUME_RACED };
          throw error;
        }
      case 'approve': {
        const found = await orderApproval(command, deps);
        if ('why' in found) return { ok: false, why: found.why };
        const executed = await resultOf(found.placed, store, { waitMs: ORDER_WAIT, clock, signal });
        if (executed === 'waiting') return executed;
        if (executed !== 'done') return { ok: false, why: executed.refused };
        const { action, rule, placed, holds } = found;
        return { ok: true, result: { account: placed.account, action, rule, holds } };
      }
    }
  };
}

export const RESUME_RACED =
  'another operator paused or resumed auto-cancel at the same time: check the journal, then try again';

interface ActingAccount extends CallbackSource {
  readonly name: string;
  at(priority: Priority): Reader;
  createWriter(): Writer;
  /** Difference between the wall clock and the service's clock (ms); undefined if it is unknown. */
  readonly serviceClock: { largestSkew(): number | undefined };
}

/** Opens auto-cancel for accounts, reads the brake and executes operators' orders. */
export class AutoCancelAccounts {
  readonly #deps: AutoCancelAccountsDeps;
  readonly #brake: Brake;
  readonly #open = new Map<string, OpenAutoCancel>();
  readonly #orders: LoopSlot;
  /** Reads the brake and executes orders for open accounts. Never rejects. */
  readonly follow: Body;
  #config: AutoCancelSettings;

  constructor(config: AutoCancelSettings, deps: AutoCancelAccountsDeps) {
    this.#deps = deps;
    this.#config = config;
    this.#brake = createBrake(deps.store, deps.clock, deps.log);
    this.#orders = createLoopSlot(deps);
    const { store, clock, log } = deps;
    const executeOrders = createOrders({
      store,
      accounts: () =>
        [...this.#open].map(([name, { own }]) => ({ name, policy: policyOf(this.#config), journal: own.journal })),
      clock,
      log,
    });
    const parts = [
      withErrorLog(log, 'the pause state of auto-cancel could not be synchronized', () =>
        this.#brake.synchronize([...this.#open.values()].map(({ own }) => own.journal)),
      ),
      withErrorLog(log, 'operator commands could not be processed', executeOrders),
    ];
    this.follow = async signal => {
      if (isOn(this.#config)) for (const part of parts) await part(signal);
    };
  }

  /** Replaces the configuration. Accounts with a changed policy must be closed first. */
  use(config: AutoCancelSettings): void {
    this.#config = config;
  }

  /** Executes pending orders, then starts the loop. */
  async start(): Promise<void> {
    await this.follow(new AbortController().signal);
    const { orders } = this.#deps.intervals;
    await this.#orders.run('orders', { every: orders, firstDelay: orders, body: this.follow });
  }

  /** Opens auto-cancel, or returns undefined if it is off. Rejects with StoreError. */
  async open(account: ActingAccount, before: OpenAutoCancel | undefined): Promise<OpenAutoCancel | undefined> {
    const config = this.#config;
    const policy = policyFor(config, account.name);
    if (policy === undefined) return undefined;
    const own = await openAccount(config, account, this.#deps, this.#brake, before?.own);
    await this.#deps.journals.watch(own.notices);
    const loop = createLoopSlot(this.#deps);
    const { act } = this.#deps.intervals;
    const body = withErrorLog(this.#deps.log, 'auto-cancel failed; retrying', signal => own.run(signal));
    const opened: OpenAutoCancel = {
      own,
      source: createSource(own),
      policy,
      run: body,
      start: () => {
        if (own.isUsed) void loop.run(own, { every: act, firstDelay: act, body });
      },
      stop: async () => {
        await loop.close();
        this.#deps.journals.unwatch(own.notices);
        if (this.#open.get(account.name) === opened) this.#open.delete(account.name);
      },
    };
    this.#open.set(account.name, opened);
    return opened;
  }

  /** Returns undefined if auto-cancel is off. */
  view() {
    if (!isOn(this.#config)) return undefined;
    const accounts = [...this.#open.values()].map(({ own }) => own);
    const { store, clock } = this.#deps;
    return {
      accounts,
      /** Explains the callback with this dlqId or messageId in one or all accounts. */
      explain: (id: string, account: string | undefined): readonly Explanation[] =>
        accounts
          .filter(each => account === undefined || each.account === account)
          .flatMap(each => each.explain(id) ?? []),
      /** Returns the newest journal lines since a time (ms since the Unix epoch), oldest first. Rejects with StoreError. */
      async journal(since: number, most = MAX_LINES, only?: string): Promise<readonly JournalLine[]> {
        const wanted = accounts.filter(({ account }) => (only ?? account) === account);
        const journals = wanted.map(({ journal }) => journal.lines);
        return newestLines(journals, since, most);
      },
      /** Executes an operator's command. Rejects with StoreError, or with the reason of `signal`. */
      command: commandOf({
        store,
        accounts: this.#config.accounts.map(({ name }) => name),
        stateOf: account => accounts.find(own => own.account === account)?.journal.state,
        clock,
        brake: this.#brake,
      }),
    };
  }

  /** Stops the loop that executes orders. Accounts must be stopped separately. */
  close(): Promise<void> {
    return this.#orders.close();
  }
}
