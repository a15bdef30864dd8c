import type { LoadedConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { withClosing } from '../../kit/closing.ts';
import type { Log } from '../../kit/log.ts';
import type { Tracer } from '../../kit/tracer.ts';
import { mostForReading } from '../../upstream/options.ts';
import { createParts, type PartsDeps } from '../parts.ts';
import { type AccountBacktest, backtestAccount, type Range } from './account.ts';
import { judgeInThread } from './judging-thread.ts';

/** How far a backtest is. */
export interface BacktestProgress {
  readonly account: string;
  /** Share of the range that is judged, from 0 to 1. */
  readonly done: number;
  readonly events: number;
  readonly requests: number;
}

/** What an account's budget allows. */
export interface Allowance {
  readonly account: string;
  readonly requestsPerSecond: number;
  /** In a day, for reading. */
  readonly requestsPerDay: number;
}

export interface BacktestOutcome {
  readonly account: string;
  /** Undefined where it failed. */
  readonly result: AccountBacktest | undefined;
  readonly failure: string | undefined;
  /** Calls that it took. */
  readonly requests: number;
}

export interface BacktestDeps extends PartsDeps {
  onProgress(progress: BacktestProgress): void;
}

const nothing = () => undefined;
const silent: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => silent };
const untraced: Tracer = {
  span: (_name, _attributes, work) => work({ set: nothing, fail: nothing }),
  headers: () => ({}),
};

/** The same without anything that writes or sends. */
function readingOnly(config: Config): Config {
  const { tracing } = config;
  return {
    ...config,
    store: { ...config.store, kind: 'memory' },
    log: { ...config.log, level: 'silent' },
    tracing: { ...tracing, enabled: false, lifecycle: { ...tracing.lifecycle, enabled: false } },
  };
}

/** What reading may take of each account's budget. */
export const allowances = ({ accounts }: Config): readonly Allowance[] =>
  accounts.map(({ name, budget }) => ({
    account: name,
    requestsPerSecond: budget.requestsPerSecond,
    requestsPerDay: mostForReading(budget),
  }));

/** Backtests one account after the other. Nothing is stored, and nothing but reads is sent. */
export function backtest(
  loaded: LoadedConfig,
  { onProgress, ...deps }: BacktestDeps,
  range: Range,
  signal: AbortSignal,
): Promise<readonly BacktestOutcome[]> {
  return withClosing(async closing => {
    const config = readingOnly(loaded.config);
    const { accounts } = await createParts({ ...loaded, config }, deps, closing);
    const outcomes: BacktestOutcome[] = [];
    for (const [index, account] of accounts.entries()) {
      const settings = config.accounts[index];
      if (!settings) continue;
      const { name, at, spent } = account;
      const toldProgress = (readTo: number, events: number) =>
        onProgress({
          account: name,
          done: Math.min(1, (readTo - range.from) / (range.to - range.from)),
          events,
          requests: spent().requests,
        });
      try {
        const own = {
          config,
          settings,
          at,
          log: silent,
          tracer: untraced,
          judge: judgeInThread,
          onProgress: toldProgress,
        };
        const result = await backtestAccount(own, range, signal);
        outcomes.push({ account: name, result, failure: undefined, requests: spent().requests });
      } catch (error) {
        signal.throwIfAborted();
        const failure = error instanceof Error ? error.message : String(error);
        outcomes.push({ account: name, result: undefined, failure, requests: spent().requests });
      }
    }
    return outcomes;
  });
}

export type { AccountBacktest } from './account.ts';
export type { AlertResult } from './alerts.ts';
export type { Firing } from './firings.ts';
