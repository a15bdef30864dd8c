import { createAutoCancel } from '../../auto-cancel/index.ts';
import { allowedGap, judge, walkEvery, wantsUnreported } from '../../auto-cancel/judge.ts';
import { type AutoCancelOptions, type Rule, rulesFor } from '../../auto-cancel/options.ts';
import { createTracker } from '../../collectors/dlq/callbacks.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { Tracer } from '../../kit/tracer.ts';
import type { DeliveryEvent, DlqEntry } from '../../model/message.ts';
import { createMemoryStore } from '../../store/memory.ts';
import type { EventQuery, ListPage, Reader } from '../../upstream/api.ts';

/** One failure callback that a rule would have cancelled. */
export interface PlannedCancel {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly dlqId: string | undefined;
  readonly url: string | undefined;
}

/** What became of one rule of auto-cancel. */
export interface CancelResult {
  readonly rule: string;
  /** `would_cancel`: it surely would have cancelled some. */
  readonly verdict: 'would_cancel' | 'unknown';
  /** What can't be told, and why. */
  readonly because: string;
  readonly planned: readonly PlannedCancel[];
  /** Why others were left alone, by reason, and at how many walks. */
  readonly skipped: readonly { readonly reason: string; readonly count: number }[];
  /** Entries listed now that may be stuck: since when nothing tells. */
  readonly open: number;
}

export interface CancelBacktestDeps {
  readonly account: string;
  readonly options: AutoCancelOptions;
  readonly rescanEvery: number;
  /** Entries that are listed now. */
  readonly entries: readonly DlqEntry[];
  /** For the events of a message. */
  readonly reader: Reader;
  readonly alertStates: () => ReadonlyMap<string, 'firing' | 'unknown'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracer: Tracer;
}

/** Judges the rules of auto-cancel at each walk that an agent would have made. Plans alone: it has no way to send. */
export interface CancelBacktest {
  /** Milliseconds between two walks. */
  readonly every: number;
  walk(at: number, signal: AbortSignal): Promise<void>;
  results(now: number): Promise<readonly CancelResult[]>;
}

const STATES = 'nothing lists the past states of failure callbacks';
const UNREPORTED = 'unknown_callback_state';
const LEFT = 'entries that have left the dead-letter queue leave no trace';

async function* once<Row>(page: ListPage<Row>): AsyncGenerator<ListPage<Row>> {
  yield page;
}

/** The log as it was at a time: each message is asked for once. */
function readerAsOf(reader: Reader, clock: Pick<Clock, 'now'>): Reader {
  const known = new Map<string, DeliveryEvent[]>();
  async function* pages(query: EventQuery, signal: AbortSignal): AsyncGenerator<ListPage<DeliveryEvent>> {
    const id = JSON.stringify(query.messageId);
    let rows = known.get(id);
    if (!rows) {
      rows = [];
      const all = reader.eventPages({ messageId: query.messageId ?? '' }, signal);
      for (let page = await all.next(); !page.done; page = await all.next()) rows.push(...page.value.rows);
      known.set(id, rows);
    }
    yield* once({ rows: rows.filter(({ time }) => time <= clock.now()), rejected: 0, isLast: true });
  }
  return { ...reader, eventPages: pages };
}

/** Whether an entry surely is none of a rule's now, even if it has been as it is since it came. */
function isSurelyNone(rule: Rule, entry: DlqEntry, options: AutoCancelOptions, now: number): boolean {
  const firstSeenAt = entry.enteredAt ?? Number.NEGATIVE_INFINITY;
  const sighting = { entry, firstSeenAt, lastSeenAt: now, snapshots: Number.POSITIVE_INFINITY, episode: '' };
  const seen = { sighting, id: entry[options.idFrom], lastEventAt: undefined, askedAt: now };
  const { verdict, reason } = judge(rule, seen);
  // Where no state is reported, the rule leaves it alone.
  return verdict === 'no_match' || verdict === 'not_stuck' || reason === UNREPORTED;
}

export async function createCancelBacktest(deps: CancelBacktestDeps): Promise<CancelBacktest> {
  const { account, rescanEvery, entries, clock, log, tracer } = deps;
  const rules = rulesFor(deps.options, account);
  const options: AutoCancelOptions = { ...deps.options, mode: 'plan', rules };
  const isUntold = (entry: DlqEntry) => rules.some(rule => wantsUnreported(rule, entry));
  // Of those that report no state, being listed is all that counts, and that is known since they came.
  const known = entries
    .filter(entry => entry.callbackState === undefined && entry.enteredAt !== undefined && isUntold(entry))
    .sort((a, b) => (a.enteredAt ?? 0) - (b.enteredAt ?? 0));
  const tracker = createTracker({ track: isUntold, maxGap: allowedGap(rules, rescanEvery) });
  const autoCancel = await createAutoCancel({
    account,
    options,
    policy: 'backtest',
    walk: () => ({ facts: tracker.facts(), isFresh: true, eventsAreFresh: true }),
    isStopped: () => false,
    alertStates: deps.alertStates,
    store: createMemoryStore(),
    outbox: { post: () => ({ changes: () => [], send: () => undefined }) },
    reader: readerAsOf(deps.reader, clock),
    lastReader: readerAsOf(deps.reader, clock),
    writer: undefined,
    clock,
    log,
    tracer,
  });

  function resultOf(rule: Rule, planned: readonly PlannedCancel[], now: number): CancelResult {
    const open = entries.filter(entry => !isSurelyNone(rule, entry, options, now)).length;
    const skipped = autoCancel
      .numbers()
      .skips.flatMap(({ rule: name, reason, count }) =>
        name === rule.name && reason !== UNREPORTED ? [{ reason, count }] : [],
      );
    return {
      rule: rule.name,
      verdict: planned.length > 0 ? 'would_cancel' : 'unknown',
      because: rule.evidence === 'reported' ? STATES : LEFT,
      planned,
      skipped,
      open,
    };
  }

  return {
    every: walkEvery(rules, rescanEvery),
    async walk(at, signal) {
      if (known.length === 0) return;
      const there = known.findLastIndex(({ enteredAt = 0 }) => enteredAt <= at) + 1;
      tracker.observe(known.slice(0, there), at);
      await autoCancel.run(signal);
    },
    async results(now) {
      const lines = await autoCancel.journal.newest(0, 100_000);
      return rules.map(rule => {
        const planned = lines.flatMap(line =>
          line.step === 'ended' && line.outcome === 'planned' && line.rule === rule.name
            ? [{ at: line.at, dlqId: line.target.dlqId, url: line.target.workflowUrl ?? line.target.url }]
            : [],
        );
        return resultOf(rule, planned, now);
      });
    },
  };
}
