import { createHash } from 'node:crypto';
import { modeOf } from '../auto-cancel/candidates.ts';
import { createDesk } from '../auto-cancel/desk.ts';
import { type Explanation, explain } from '../auto-cancel/explain.ts';
import { type Journal, openJournal, readJournal } from '../auto-cancel/journal.ts';
import { judge } from '../auto-cancel/judge.ts';
import { createPipeline, type Pipeline } from '../auto-cancel/pipeline.ts';
import { mayBeThere } from '../auto-cancel/stop-file.ts';
import { accountMayAct } from '../config/auto-cancel.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import { autoCancelFamilies, autoCancelSamples } from '../metrics/auto-cancel.ts';
import type { Source } from '../metrics/family.ts';
import { BREAKERS, FINAL_OUTCOMES, type JournalEntry } from '../model/journal.ts';
import type { Store } from '../store/store.ts';
import type { Account } from './account.ts';
import type { Alerting } from './alerting.ts';
import { evidenceOf, rulesOf } from './callbacks.ts';

/** Acting on stuck failure callbacks, for all accounts. */
export interface AutoCancel {
  readonly sources: readonly Source[];
  /** Loops to run, one after the other within each; none throws. */
  readonly loops: readonly ((signal: AbortSignal) => Promise<void>)[];
  /** Why the failure callback with this dlqId or messageId is or is not acted upon, by every account that tracks it. */
  explain(id: string, account: string | undefined): readonly Explanation[];
  /**
   * The journal from a time on (milliseconds since the Unix epoch), the oldest line first; the newest 10,000 where there are
   * more. Rejects with StoreError.
   */
  journal(since: number): Promise<readonly JournalLine[]>;
}

export type JournalLine = JournalEntry & { readonly account: string };

interface AutoCancelDeps {
  readonly config: Config;
  readonly accounts: readonly Account[];
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracer: Tracer;
  /** Without it there are no alerts, and nobody is told. */
  readonly alerting?: Pick<Alerting, 'braking' | 'telling'>;
}

/** Lines that are given at a time: some 10 MB of JSON. */
const MOST_LINES = 10_000;

/** All lines of some accounts' journals from a time on, the oldest first. Blocks the process while it reads. */
export async function readJournals(
  store: Pick<Store, 'scan'>,
  accounts: readonly string[],
  since: number,
): Promise<JournalLine[]> {
  const lines: JournalLine[] = [];
  for (const account of accounts) {
    for (const entry of await readJournal(store, account)) if (entry.at >= since) lines.push({ account, ...entry });
  }
  return lines.sort((a, b) => a.at - b.at);
}

/** How a judgement says that it lacks nothing but the newest event. */
const LACKS_EVENTS = 'unknown_idle_for';

function createSource(config: Config, account: string, journal: Journal, pipeline: Pipeline): Source {
  const options = config.autoCancel;
  const rules = options.rules.filter(({ accounts }) => accounts?.includes(account) ?? true);
  const numbers = () => {
    const { state } = journal;
    const actions = new Map<string, { rule: string; mode: string; outcome: string; count: number }>();
    for (const rule of rules) {
      const [name, mode] = [rule.name, pipeline.modeOf(rule)];
      for (const outcome of FINAL_OUTCOMES) {
        actions.set(`${name}\0${mode}\0${outcome}`, { rule: name, mode, outcome, count: 0 });
      }
    }
    for (const [key, each] of state.outcomes) actions.set(key, each);
    const unresolved = new Map<string, number>();
    for (const { isOpen, rule, attempts } of state.actions.values()) {
      const at = attempts.at(-1)?.at;
      if (isOpen && at !== undefined) unresolved.set(rule, Math.min(at, unresolved.get(rule) ?? at));
    }
    return {
      candidates: new Map([...pipeline.candidates()].filter(([name]) => rules.some(rule => rule.name === name))),
      actions: [...actions.values()],
      skips: pipeline.decisions.skips(),
      breakers: new Map(BREAKERS.map(breaker => [breaker, state.breakers.has(breaker)])),
      isPaused: state.paused !== undefined,
      unresolved,
      budget: pipeline.left(rules),
    };
  };
  let last = { text: '', samples: autoCancelSamples(numbers()) };
  return {
    account,
    families: Object.values(autoCancelFamilies),
    revision() {
      const samples = autoCancelSamples(numbers());
      const text = JSON.stringify([...samples.values()]);
      if (text !== last.text) last = { text, samples };
      return last.text;
    },
    samples: () => last.samples,
  };
}

/** Undefined while the configuration has it off. Rejects with StoreError where its journals can't be read. */
export async function createAutoCancel(deps: AutoCancelDeps): Promise<AutoCancel | undefined> {
  const { config, accounts, store, clock, log, tracer } = deps;
  const options = config.autoCancel;
  if (options.mode === 'off' || options.rules.length === 0) return undefined;
  const policy = createHash('sha256').update(JSON.stringify(options)).digest('hex').slice(0, 16);
  const rules = new Map(options.rules.map(rule => [rule.name, rule]));
  const parts = await Promise.all(
    accounts.map(async account => {
      const { name } = account;
      const opened = await openJournal(store, name);
      const journal = deps.alerting?.telling(name, opened) ?? opened;
      const evidence = () => evidenceOf(account);
      const pipeline = createPipeline({
        account: name,
        options,
        policy,
        journal,
        evidence,
        judge(rule, sighting, id, silence) {
          const known = rules.get(rule);
          if (!known) throw new Error(`there is no rule called ${rule}`);
          return judge(known, { sighting, id, lastEventAt: undefined, askedAt: clock.now(), ...silence });
        },
        lacksEvents: LACKS_EVENTS,
        reader: account.at('look'),
        lastReader: account.at('action'),
        writer: accountMayAct(config, name) ? account.createWriter() : undefined,
        isStopped: () => mayBeThere(options.stopFile),
        alerts: () => deps.alerting?.braking(name) ?? new Map(),
        clock,
        log,
        tracer,
      });
      const isUsed = rulesOf(config, name).length > 0;
      return { name, newest: opened.newest, journal, pipeline, facts: () => evidence().facts, isUsed };
    }),
  );
  const explainIn = (part: (typeof parts)[number], id: string) => explain(id, { ...part, account: part.name });
  const desk = createDesk({
    store,
    accounts: parts.map(part => ({ name: part.name, journal: part.journal, explain: id => explainIn(part, id) })),
    clock,
    log,
  });
  /** What was asked while no agent ran comes before anything else: nothing is done until the store has taken it. */
  let isReady = false;
  async function obey(): Promise<void> {
    // A pause is of all accounts, of those that were configured after it, too.
    const paused = parts.find(({ journal }) => journal.state.paused)?.journal.state.paused;
    for (const { journal } of isReady ? [] : parts) {
      if (paused && !journal.state.paused) await journal.append([{ ...paused, step: 'paused' }]);
    }
    await desk.serve();
    isReady = true;
  }
  const quietly = (what: string, work: (signal: AbortSignal) => Promise<void>) => async (signal: AbortSignal) => {
    try {
      await work(signal);
    } catch (error) {
      if (!signal.aborted) log.error({ error: String(error) }, what);
    }
  };
  const commands = quietly('commands could not be obeyed', obey);
  await commands(new AbortController().signal);
  for (const rule of options.rules) {
    log.info(
      { rule: rule.name, mode: modeOf(rule, options.mode, clock.now()), policy },
      'a rule of auto-cancel is in force',
    );
  }
  return {
    sources: parts.map(({ name, journal, pipeline }) => createSource(config, name, journal, pipeline)),
    loops: [
      commands,
      ...parts
        .filter(({ isUsed, journal }) => isUsed || journal.state.actions.size > 0)
        .map(({ pipeline }) =>
          quietly('auto-cancel could not go on', async signal => {
            if (isReady) await pipeline.run(signal);
          }),
        ),
    ],
    explain: (id, account) =>
      parts.filter(({ name }) => account === undefined || name === account).flatMap(part => explainIn(part, id) ?? []),
    async journal(since) {
      const lines: JournalLine[] = [];
      for (const { name, newest } of parts) {
        for (const entry of await newest(since, MOST_LINES)) lines.push({ account: name, ...entry });
      }
      return lines.sort((a, b) => a.at - b.at).slice(-MOST_LINES);
    },
  };
}
