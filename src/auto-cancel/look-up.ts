import type { Log } from '../kit/log.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Silence } from '../model/callback.ts';
import type { JournalTarget } from '../model/journal.ts';
import type { CallbackState, DlqEntry } from '../model/message.ts';
import { type DlqListQuery, isSaneId, isUnanswerable, type ListPage, type Reader } from '../upstream/api.ts';
import { isMissingPath } from '../upstream/errors.ts';
import type { EvaluatedCallback } from './evaluate.ts';
import type { NextDelivery } from './stages.ts';

/** Maximum number of pages to read if the service ignores the filter. */
const MAX_PAGES = 100;

class Unreadable extends Error {
  override readonly name = 'Unreadable';
}

/** Returns the rows of a page. Throws Unreadable if a row could not be read completely, because it may be the wanted one. */
function allRows<Row>({ rows, rejected, incomplete }: ListPage<Row>): readonly Row[] {
  if (rejected > 0 || incomplete > 0) throw new Unreadable('rows could not be read completely');
  return rows;
}

/**
 * Whether an id is the wanted one. Throws Unreadable if they differ only in case, because the service may have changed the
 * case.
 */
function hasId(id: string | undefined, wanted: string): boolean {
  if (id !== wanted && id?.toLowerCase() === wanted.toLowerCase())
    throw new Unreadable('an id is listed in another case');
  return id === wanted;
}

function isTarget(entry: DlqEntry, { dlqId, messageId }: JournalTarget): boolean {
  if (dlqId === undefined) return messageId !== undefined && hasId(entry.messageId, messageId);
  if (!hasId(entry.dlqId, dlqId)) return false;
  if (messageId === undefined || entry.messageId === undefined || hasId(entry.messageId, messageId)) return true;
  throw new Unreadable('the entry is listed with another message');
}

const isSameCallback = (a: DlqEntry, b: DlqEntry | undefined) =>
  a.callbackState === b?.callbackState && a.callbackMessageId === b?.callbackMessageId;

async function find(
  reader: Reader,
  query: DlqListQuery,
  target: JournalTarget,
  signal: AbortSignal,
): Promise<DlqEntry | undefined> {
  const pages = reader.dlqPages(query, signal);
  for (let count = 0; count < MAX_PAGES; count += 1) {
    const page = await pages.next();
    if (page.done) return undefined;
    const [found, ...others] = allRows(page.value).filter(entry => isTarget(entry, target));
    if (others.some(other => !isSameCallback(other, found))) throw new Unreadable('the entry contradicts itself');
    if (found) return found;
  }
  throw new Unreadable(`the entry is not among ${MAX_PAGES} pages`);
}

/**
 * Rereads an entry; undefined if it was removed. Tries the list of workflow runs if the plain list lacks the entry or its
 * state. Throws UpstreamError and Unreadable.
 */
export async function rereadEntry(
  reader: Reader,
  target: JournalTarget,
  signal: AbortSignal,
): Promise<DlqEntry | undefined> {
  const query = target.messageId === undefined ? {} : { messageId: target.messageId };
  const plain = await find(reader, query, target, signal);
  if (plain?.callbackState !== undefined) return plain;
  try {
    const own = await find(reader, { ...query, source: 'workflow' }, target, signal);
    return own && (!plain || own.callbackState !== undefined) ? own : plain;
  } catch (error) {
    if (isUnanswerable(error)) return plain;
    throw error;
  }
}

const MAX_EVENT_PAGES = 20;

/**
 * Returns the time of the newest event of these messages (ms since the Unix epoch), `none` without events, or undefined if
 * inconclusive. Throws UpstreamError and Unreadable.
 */
async function newestEvent(
  reader: Reader,
  messages: readonly string[],
  signal: AbortSignal,
): Promise<number | 'none' | undefined> {
  let newest = Number.NEGATIVE_INFINITY;
  for (const messageId of messages) {
    const pages = reader.eventPages({ messageId }, signal);
    const listed = { own: 0, others: 0 };
    for (let count = 0; ; count += 1) {
      if (count === MAX_EVENT_PAGES) return undefined;
      const page = await pages.next();
      if (page.done) break;
      for (const event of allRows(page.value)) {
        const isOwn = hasId(event.messageId, messageId);
        listed[isOwn ? 'own' : 'others'] += 1;
        if (isOwn) newest = Math.max(newest, event.time);
      }
    }
    if (listed.own === 0 && listed.others > 0) return undefined;
  }
  return newest === Number.NEGATIVE_INFINITY ? 'none' : newest;
}

export async function lookUpEvents(
  reader: Reader,
  { messageId, callbackMessageId }: DlqEntry,
  { now, log }: { readonly now: () => number; readonly log: Log },
  signal: AbortSignal,
): Promise<Silence> {
  // Take the time first: later events may be missing from the response.
  const askedAt = now();
  const messages = [messageId, callbackMessageId].filter(each => each !== undefined);
  if (messages.length === 0) return { lastEventAt: undefined, askedAt };
  try {
    return { lastEventAt: await newestEvent(reader, messages, signal), askedAt };
  } catch (error) {
    if (signal.aborted) throw error;
    log.debug({ error: String(error) }, 'the events of a message could not be read');
    return { lastEventAt: undefined, askedAt };
  }
}

/** Maximum number of pages of runs to read if the service ignores the filter. A page has ten runs. */
const MAX_RUN_PAGES = 5;

/**
 * Looks up the due time of the callback's next delivery, which only the list of workflow runs reports. Call it after a successful
 * read of the dead letters: only then does a 404 show that the service has no such list. Throws only if the signal is aborted.
 */
export async function lookUpNextDelivery(
  reader: Reader,
  { rule, sighting }: Pick<EvaluatedCallback, 'rule' | 'sighting'>,
  signal: AbortSignal,
): Promise<NextDelivery> {
  const { workflowRunId: runId, workflowCreatedAt: createdAt } = sighting.entry;
  const isKnown = runId !== undefined && isSaneId(runId) && createdAt !== undefined;
  const pages = reader.runPages(isKnown ? { runs: [{ runId, createdAt }] } : {}, signal);
  let count = 0;
  try {
    for (; count < MAX_RUN_PAGES; count += 1) {
      const page = await pages.next();
      if (!isKnown) return 'run_unknown';
      if (page.done) return 'run_not_listed';
      const found = allRows(page.value).filter(run => hasId(run.runId, runId));
      const callbacks = found.flatMap(({ failureFunction }) => failureFunction ?? []);
      // A blind rule is for services that report nothing about callbacks.
      if (callbacks.length < found.length && rule.evidence !== 'blind') return 'run_not_listed';
      const times = callbacks.flatMap(({ nextDeliveryAt }) => nextDeliveryAt ?? []);
      if (found.length > 0) return times.length > 0 ? Math.max(...times) : 'none';
    }
  } catch (error) {
    if (signal.aborted) throw error;
    if (count === 0 && isMissingPath(error)) return 'none';
  }
  return 'run_unread';
}

export function callbackStateOf(entry: DlqEntry | undefined): CallbackState | 'unreported' | 'gone' {
  return entry ? (entry.callbackState ?? 'unreported') : 'gone';
}

const MAX_LOOKUPS = 25;

/** Creates look-ups of the newest events of entries that lack only this evidence. */
export function createEventLookUps({
  reader,
  clock,
  log,
}: Pick<Runtime, 'clock' | 'log'> & { readonly reader: Reader }) {
  const results = new Map<string, Silence>();
  let isCarried = false;
  let wasCarried = false;
  /** Time (monotonic) and result of each entry's last look-up. */
  const last = new Map<string, { readonly at: number; readonly result: Silence['lastEventAt'] }>();
  const lastOf = ({ sighting }: EvaluatedCallback) => last.get(sighting.entry.id);

  return {
    /** Returns the result of this walk's look-up of the entry, or undefined. */
    of: (entryId: string): Silence | undefined => results.get(entryId),
    /** Starts the decision on a walk. Drops earlier results unless they were carried over. */
    startWalk(): void {
      if (!isCarried) results.clear();
      [wasCarried, isCarried] = [isCarried, false];
    },
    /** Keeps the results for the next walk, which has completed during slow look-ups. */
    carryOver(): void {
      isCarried = true;
    },
    /**
     * Looks up entries until the next walk completes. Skips this if results were carried over, so that a slow log does not
     * delay every decision. Returns the number of undecided entries that still need a look-up.
     */
    async lookUp(
      lacking: readonly EvaluatedCallback[],
      isDecided: (evaluated: EvaluatedCallback) => boolean,
      isOvertaken: () => boolean,
      signal: AbortSignal,
    ): Promise<number> {
      const ids = new Set(lacking.map(({ sighting }) => sighting.entry.id));
      const sorted = lacking.toSorted(
        (a, b) => Number(isDecided(a)) - Number(isDecided(b)) || (lastOf(a)?.at ?? -1) - (lastOf(b)?.at ?? -1),
      );
      if (!wasCarried) for (const id of last.keys()) if (!ids.has(id)) last.delete(id);
      for (const { sighting } of wasCarried ? [] : sorted.slice(0, MAX_LOOKUPS)) {
        if (isOvertaken()) break;
        const { entry } = sighting;
        const silence = await lookUpEvents(reader, entry, { now: clock.now, log }, signal);
        results.set(entry.id, silence);
        last.set(entry.id, { at: clock.monotonic(), result: silence.lastEventAt });
      }
      const isOpen = (each: EvaluatedCallback) => !isDecided(each) && lastOf(each)?.result !== 'none';
      return sorted.filter(each => !results.has(each.sighting.entry.id) && isOpen(each)).length;
    },
  };
}
