import { boundText, pathAddress } from '../../kit/text.ts';
import type { DlqEntry } from '../../model/message.ts';

/** The newest and the longest-queued entries of a queue of any size. */
export type QueueEnds = ReturnType<typeof createEnds>;

const MAX_SHOWN = 10;
/** Maximum length of an id (characters). Longer ids are omitted: a truncated id could be another entry's. */
const MAX_ID = 512;
const MAX_URL = 500;
const MAX_TEXT = 200;
const MAX_LABELS = 20;

const idOf = (id: string | undefined) => (id !== undefined && id.length <= MAX_ID ? id : undefined);
const textOf = (text: string | undefined) => (text === undefined ? undefined : boundText(text, MAX_TEXT));

/**
 * Returns a dead letter as shown, without body, headers and error. Times are in milliseconds since the Unix epoch. `dlqId` and
 * `messageId` are undefined if missing or too long. `enteredAt`: the time in the dlqId, else when the entry was first seen.
 */
const toDeadLetter = (entry: DlqEntry, enteredAt: number) => ({
  dlqId: idOf(entry.dlqId),
  messageId: idOf(entry.messageId),
  enteredAt,
  createdAt: entry.createdAt,
  url: entry.url === undefined ? undefined : boundText(pathAddress(entry.url), MAX_URL),
  method: textOf(entry.method),
  responseStatus: entry.responseStatus,
  queue: textOf(entry.queue),
  topic: textOf(entry.topic),
  schedule: textOf(entry.schedule),
  labels: entry.labels.slice(0, MAX_LABELS).map(label => boundText(label, MAX_TEXT)),
  callbackState: entry.callbackState,
});

export type DeadLetter = Readonly<ReturnType<typeof toDeadLetter>>;

interface Place {
  readonly enteredAt: number;
  readonly id: string;
  readonly letter: DeadLetter;
}

/** Ties are broken by id, so that the order of pages does not matter. */
const isBefore = (a: Place, b: Place) => a.enteredAt < b.enteredAt || (a.enteredAt === b.enteredAt && a.id < b.id);

function insert(first: Place[], place: Place, comesBefore: (a: Place, b: Place) => boolean): void {
  let at = first.length;
  while (at > 0 && comesBefore(place, first[at - 1] as Place)) at -= 1;
  if (at === MAX_SHOWN) return;
  first.splice(at, 0, place);
  if (first.length > MAX_SHOWN) first.pop();
}

export function createEnds() {
  const newest: Place[] = [];
  const longest: Place[] = [];
  /** Entries between these times belong to neither end. */
  let lastOfLongest = Number.POSITIVE_INFINITY;
  let lastOfNewest = Number.NEGATIVE_INFINITY;
  return {
    /** Adds an entry. `enteredAt`: entry time, else the time of the first sighting. */
    add(entry: DlqEntry, enteredAt: number): void {
      if (enteredAt > lastOfLongest && enteredAt < lastOfNewest) return;
      const place = { enteredAt, id: idOf(entry.id) ?? '', letter: toDeadLetter(entry, enteredAt) };
      insert(longest, place, isBefore);
      insert(newest, place, (a, b) => isBefore(b, a));
      if (longest.length < MAX_SHOWN) return;
      lastOfLongest = (longest[MAX_SHOWN - 1] as Place).enteredAt;
      lastOfNewest = (newest[MAX_SHOWN - 1] as Place).enteredAt;
    },
    newest: (): readonly DeadLetter[] => newest.map(({ letter }) => letter),
    longest: (): readonly DeadLetter[] => longest.map(({ letter }) => letter),
  };
}
