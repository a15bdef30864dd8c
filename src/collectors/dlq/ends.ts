import { boundText, pathAddress } from '../../kit/text.ts';
import type { DlqEntry } from '../../model/message.ts';

/** A dead letter as it is shown: nothing of its body, headers or error. Times: milliseconds since the Unix epoch. */
export interface DeadLetter {
  /** Undefined where there is none, or it is too long to be one; so is the messageId. */
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  /** When it came into the queue: as its dlqId tells, else when it was first seen. */
  readonly enteredAt: number;
  readonly createdAt: number | undefined;
  /** Without query, fragment, user and password. */
  readonly url: string | undefined;
  readonly method: string | undefined;
  /** Status of the last attempt; 0 if there was no response. */
  readonly responseStatus: number | undefined;
  readonly queue: string | undefined;
  readonly topic: string | undefined;
  readonly schedule: string | undefined;
  readonly label: string | undefined;
  readonly callbackState: string | undefined;
}

/** Both ends of a queue: of however many entries, those that entered last and those that have been there longest. */
export type Ends = ReturnType<typeof createEnds>;

const MOST = 10;
/** A longer id is none: cut, it would be another's. */
const LONGEST_ID = 512;
const LONGEST_URL = 500;
const LONGEST_TEXT = 200;

const idOf = (id: string | undefined) => (id !== undefined && id.length <= LONGEST_ID ? id : undefined);
const textOf = (text: string | undefined) => (text === undefined ? undefined : boundText(text, LONGEST_TEXT));

const toDeadLetter = (entry: DlqEntry, enteredAt: number): DeadLetter => ({
  dlqId: idOf(entry.dlqId),
  messageId: idOf(entry.messageId),
  enteredAt,
  createdAt: entry.createdAt,
  url: entry.url === undefined ? undefined : boundText(pathAddress(entry.url), LONGEST_URL),
  method: textOf(entry.method),
  responseStatus: entry.responseStatus,
  queue: textOf(entry.queue),
  topic: textOf(entry.topic),
  schedule: textOf(entry.schedule),
  label: textOf(entry.labels[0]),
  callbackState: entry.callbackState,
});

/** `letter` takes the place of `entry` when that is released: most entries are at an end only until the next. */
interface Place {
  readonly enteredAt: number;
  readonly id: string;
  entry: DlqEntry | undefined;
  letter: DeadLetter | undefined;
}

/** In the order of entry. Of the same time, by id: every walk shows the same, however its pages come. */
const isBefore = (a: Place, b: Place) => a.enteredAt < b.enteredAt || (a.enteredAt === b.enteredAt && a.id < b.id);

function insert(first: Place[], place: Place, comesBefore: (a: Place, b: Place) => boolean): void {
  let at = first.length;
  while (at > 0 && comesBefore(place, first[at - 1] as Place)) at -= 1;
  if (at === MOST) return;
  first.splice(at, 0, place);
  if (first.length > MOST) first.pop();
}

function letterOf(place: Place): readonly DeadLetter[] {
  if (place.entry) place.letter = toDeadLetter(place.entry, place.enteredAt);
  place.entry = undefined;
  return place.letter ? [place.letter] : [];
}

export function createEnds() {
  const newest: Place[] = [];
  const longest: Place[] = [];
  /** Outside of these times an entry is at an end. */
  let lastOfLongest = Number.POSITIVE_INFINITY;
  let lastOfNewest = Number.NEGATIVE_INFINITY;
  return {
    /** `enteredAt`: of an entry that does not tell, when it was first seen. */
    add(entry: DlqEntry, enteredAt: number): void {
      if (enteredAt > lastOfLongest && enteredAt < lastOfNewest) return;
      const place = { enteredAt, id: idOf(entry.id) ?? '', entry, letter: undefined };
      insert(longest, place, isBefore);
      insert(newest, place, (a, b) => isBefore(b, a));
      if (longest.length < MOST) return;
      lastOfLongest = (longest[MOST - 1] as Place).enteredAt;
      lastOfNewest = (newest[MOST - 1] as Place).enteredAt;
    },
    /** Lets go of the entries that were added: of those at the ends, what is shown stays. */
    release(): void {
      for (const place of [...newest, ...longest]) letterOf(place);
    },
    newest: (): readonly DeadLetter[] => newest.flatMap(letterOf),
    longest: (): readonly DeadLetter[] => longest.flatMap(letterOf),
  };
}
