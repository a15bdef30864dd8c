import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import type { Log } from '../kit/log.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import { someOf } from './changes.ts';
import type { Leases } from './holding.ts';

/** Brings the accounts that run in line with those that this replica holds. */
export interface HandOvers {
  /** Begins to renew, and to go over to what that says. */
  start(): void;
  /** None begins from now on; resolves when the one that is under way has ended. */
  stop(): Promise<void>;
}

export interface HandOverDeps {
  readonly holding: Leases;
  readonly random: () => number;
  readonly log: Log;
  /** Those that are configured. */
  configured(): readonly string[];
  /** Those that run, and `NO_ACCOUNT` where what is of none is done here. */
  running(): ReadonlySet<string>;
  /** Ends, at once, whatever is read for them. */
  abort(accounts: readonly string[]): void;
  /** Runs these and no others; those that are new are opened from the store. Rejects where one can't be; then all goes on as before. */
  goOver(accounts: ReadonlySet<string>): Promise<void>;
  /** Runs `work` when no reload and no other hand-over is under way. */
  inTurn(work: () => Promise<void>): Promise<void>;
}

/** Milliseconds until an account that could not be opened is tried again. */
const TRY_AGAIN: Backoff = { first: 30_000, longest: 600_000 };

const named = (accounts: readonly string[]) =>
  someOf(accounts.map(account => (account === NO_ACCOUNT ? '(shared: heartbeat)' : account)));

export function createHandOvers(deps: HandOverDeps): HandOvers {
  const { holding, random, log, configured, running, goOver, inTurn } = deps;
  /** How often an account could not be opened. */
  const failures = new Map<string, number>();
  let isStopped = false;
  let isAsked = false;
  let underWay: Promise<void> = Promise.resolve();

  function fresh(): readonly string[] {
    const known = running();
    return [NO_ACCOUNT, ...configured()].filter(account => holding.held(account) && !known.has(account));
  }

  async function giveUp(): Promise<void> {
    const leaving = [...holding.leaving()];
    if (leaving.length === 0) return;
    const known = running();
    const names = new Set(leaving.map(([account]) => account));
    const run = leaving.filter(([account]) => known.has(account));
    if (run.length > 0) {
      await goOver(new Set([...known].filter(account => !names.has(account))));
      const of = (which: string) => run.flatMap(([account, why]) => (why === which ? [account] : []));
      const [lost, givenUp] = [of('lost'), of('excess')];
      log.info(
        {
          ...(givenUp.length > 0 ? { givenUp: named(givenUp) } : {}),
          ...(lost.length > 0 ? { lost: named(lost) } : {}),
          held: configured().filter(holding.held).length,
        },
        'accounts change hands',
      );
    }
    await holding.giveBack([...names]);
  }

  async function refuse(account: string, error: unknown): Promise<void> {
    const count = (failures.get(account) ?? 0) + 1;
    failures.set(account, count);
    const ms = backoffDelay(TRY_AGAIN, count, random);
    const fields = { account, error: String(error), seconds: Math.round(ms / 1000) };
    log.error(fields, 'the account could not be opened and is given back; it is tried again later');
    await holding.refuse(account, ms);
  }

  /** Runs them, too. One that can't be opened does not hold up the others: they are tried by halves. */
  async function takeUp(all: readonly string[]): Promise<void> {
    const accounts = all.filter(holding.held);
    if (accounts.length === 0 || isStopped) return;
    try {
      await goOver(new Set([...running(), ...accounts]));
    } catch (error) {
      await holding.renew();
      // Then it is no fault of theirs: they are tried again when it is back.
      if (holding.isAway()) return;
      // Nor where one was lost meanwhile.
      if (!accounts.every(holding.held)) return takeUp(accounts);
      if (accounts.length === 1) return refuse(accounts[0] as string, error);
      const half = Math.ceil(accounts.length / 2);
      await takeUp(accounts.slice(0, half));
      return takeUp(accounts.slice(half));
    }
    for (const account of accounts) failures.delete(account);
    log.info({ gained: named(accounts), held: configured().filter(holding.held).length }, 'accounts change hands');
  }

  async function settle(): Promise<void> {
    isAsked = false;
    // First: another replica waits for them.
    if (!isStopped) await giveUp();
    await takeUp(fresh());
  }

  function look(): void {
    if (isStopped || isAsked || (holding.leaving().size === 0 && fresh().length === 0)) return;
    isAsked = true;
    underWay = inTurn(settle).catch(error =>
      log.warn({ error: String(error) }, 'accounts could not change hands; it is tried again'),
    );
  }

  return {
    start: () => holding.start({ lost: deps.abort, renewed: look }),
    async stop() {
      isStopped = true;
      holding.drain();
      await underWay;
    },
  };
}
