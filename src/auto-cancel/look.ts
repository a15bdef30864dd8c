import type { Log } from '../kit/log.ts';
import type { Silence } from '../model/callback.ts';
import type { JournalTarget } from '../model/journal.ts';
import type { CallbackState, DlqEntry } from '../model/message.ts';
import { type DlqListQuery, isUnanswerable, type ListPage, type Reader } from '../upstream/api.ts';

/** A service that ignores the filter lists everything; it is read so far. */
const MOST_PAGES = 100;

/** The service went on listing other entries. */
class TooManyPages extends Error {
  override readonly name = 'TooManyPages';
}

/** The service answered, but the answer does not settle the question. */
class Unreadable extends Error {
  override readonly name = 'Unreadable';
}

/** The rows of a page; a row that could not be read may be the one that counts. Throws Unreadable. */
function allRows<Row>({ rows, rejected }: ListPage<Row>): readonly Row[] {
  if (rejected > 0) throw new Unreadable(`${rejected} rows could not be read`);
  return rows;
}

/** Whether a row has the id; throws Unreadable if it differs in case alone: then the service may list ids otherwise than before. */
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
 * Reads the entry again; undefined where it is gone. One call where it is listed plainly with a state, two where workflow runs
 * have a list of their own. Throws UpstreamError, TooManyPages and Unreadable.
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

/** Pages of events of one message that are read. */
const MOST_EVENT_PAGES = 20;

/**
 * The time of the newest event of these messages, milliseconds since the Unix epoch; `none` when the log has no event of
 * any, undefined when there are too many to tell. A list of other messages alone proves no silence: undefined, too. Throws UpstreamError and Unreadable.
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

/** What the event log says of an entry's message, and of its callback's where that is known. Nothing where that is unknown. */
export async function lookForEvents(
  reader: Reader,
  { messageId, callbackMessageId }: DlqEntry,
  { now, log }: { readonly now: () => number; readonly log: Log },
  signal: AbortSignal,
): Promise<Silence> {
  // Before the first request: what comes while they are under way may be missed.
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
