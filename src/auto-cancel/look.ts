import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Silence } from '../model/callback.ts';
import type { JournalTarget } from '../model/journal.ts';
import type { CallbackState, DlqEntry } from '../model/message.ts';
import { type DlqListQuery, isUnanswerable, type ListPage, type Reader } from '../upstream/api.ts';
import type { Judged } from './judge.ts';

/** Maximum number of pages to read from a service that ignores the filter. */
const MOST_PAGES = 100;

/** The service continues to list other entries. */
class TooManyPages extends Error {
  override readonly name = 'TooManyPages';
}

/** The service answered, but the answer does not settle the question. */
class Unreadable extends Error {
  override readonly name = 'Unreadable';
}

/** Returns the rows of a page. Throws Unreadable if a row could not be read: it may be the wanted one. */
function allRows<Row>({ rows, rejected }: ListPage<Row>): readonly Row[] {
  if (rejected > 0) throw new Unreadable(`${rejected} rows could not be read`);
  return rows;
}

/** Whether a row has the id. Throws Unreadable if only the case differs: the service may have changed its ids. */
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
  for (let count = 0; count < MOST_PAGES; count += 1) {
    const page = await pages.next();
    if (page.done) return undefined;
    const [found, ...others] = allRows(page.value).filter(entry => isTarget(entry, target));
    if (others.some(other => !isSameCallback(other, found))) throw new Unreadable('the entry contradicts itself');
    if (found) return found;
  }
  throw new TooManyPages(`the entry is not among ${MOST_PAGES} pages`);
}

/**
 * Reads the entry again; undefined if it was removed. One call if the plain list has its state, two if workflow runs have a
 * separate list. Throws UpstreamError, TooManyPages and Unreadable.
 */
export async function lookAgain(
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

/** Maximum number of event pages to read per message. */
const MOST_EVENT_PAGES = 20;

/**
 * Time of the newest event of these messages (ms since the Unix epoch), or `none` if the log has none. Undefined if there are
 * too many, or if the log lists only other messages, which proves nothing. Throws UpstreamError and Unreadable.
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
      if (count === MOST_EVENT_PAGES) return undefined;
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

/** Looks up the newest event of the message and, if known, its callback. */
export async function lookForEvents(
  reader: Reader,
  { messageId, callbackMessageId }: DlqEntry,
  { now, log }: { readonly now: () => number; readonly log: Log },
  signal: AbortSignal,
): Promise<Silence> {
  // Before the first request: events during the requests may be missed.
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

export function stateOf(entry: DlqEntry | undefined): CallbackState | 'unreported' | 'gone' {
  return entry ? (entry.callbackState ?? 'unreported') : 'gone';
}

/** Maximum number of entries whose events are read after one walk. */
const MOST_LOOKUPS = 25;

/** Look-ups of the newest events for entries that only lack this evidence, within a limit per walk. */
export function createEventLookUps(deps: { readonly reader: Reader; readonly clock: Clock; readonly log: Log }) {
  const { reader, clock, log } = deps;
  const said = new Map<string, Silence>();
  let isCarried = false;
  /** Whether results of the previous walk are still used. */
  let wasCarried = false;
  /** Last look-up of each entry: monotonic time and result. */
  let asked = new Map<string, { readonly at: number; readonly said: Silence['lastEventAt'] }>();

  return {
    /** Result for an entry in this walk; undefined without a look-up. */
    of: (entryId: string): Silence | undefined => said.get(entryId),
    /** Starts the decision on a walk: results of earlier walks are dropped unless they were carried over. */
    begin(): void {
      if (!isCarried) said.clear();
      [wasCarried, isCarried] = [isCarried, false];
    },
    /** Keeps results for the next walk, which completed before the decision on this one because the log is slow. */
    carryOver(): void {
      isCarried = true;
    },
    /**
     * Looks up undecided entries first, then those with the oldest look-up, until the next walk completes. Looks up nothing if
     * that happened in the last walk: a slow log must not delay every decision. Returns how many possibly silent entries remain.
     */
    async ask(
      lacking: readonly Judged[],
      isDecided: (judged: Judged) => boolean,
      isOvertaken: () => boolean,
      signal: AbortSignal,
    ): Promise<number> {
      const before = asked;
      const lastAsked = ({ sighting }: Judged) => before.get(sighting.entry.id)?.at ?? -1;
      const sorted = lacking.toSorted(
        (a, b) => Number(isDecided(a)) - Number(isDecided(b)) || lastAsked(a) - lastAsked(b),
      );
      if (!wasCarried) {
        asked = new Map(
          lacking.flatMap(({ sighting: { entry } }) => {
            const known = before.get(entry.id);
            return known ? [[entry.id, known] as const] : [];
          }),
        );
        for (const { sighting } of sorted.slice(0, MOST_LOOKUPS)) {
          if (isOvertaken()) break;
          const { entry } = sighting;
          const silence = await lookForEvents(reader, entry, { now: clock.now, log }, signal);
          said.set(entry.id, silence);
          asked.set(entry.id, { at: clock.monotonic(), said: silence.lastEventAt });
        }
      }
      const mayBeSilent = (each: Judged) => !isDecided(each) && asked.get(each.sighting.entry.id)?.said !== 'none';
      return sorted.filter(each => !said.has(each.sighting.entry.id) && mayBeSilent(each)).length;
    },
  };
}
