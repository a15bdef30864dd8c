import { hashedId } from '../../kit/hash.ts';
import { boundText } from '../../kit/text.ts';
import type { DlqEntry } from '../../model/message.ts';
import { type Routes, UNMATCHED } from '../routes.ts';

export const NONE = '__none__';

/** Dead letters of one kind: the same host and route, status and class of error. */
export interface Group {
  readonly id: string;
  readonly urlHost: string;
  /** The pattern that the path matches; of a path that no pattern matches, its shape. */
  readonly route: string;
  readonly responseStatus: string;
  messages: number;
  readonly sample: string | undefined;
}

export interface Groups {
  readonly byKey: Map<string, Group>;
  /** Entries that are of none of them: of kinds beyond the bound, or not readable. */
  ungrouped: number;
  isFull: boolean;
}

export interface Place {
  /** Undefined where the entry has none, or it is no address. */
  readonly address: URL | undefined;
  readonly routes: Routes;
}

/** Kinds that are told apart; a queue with more has other trouble, or is a hostile service's. */
export const MOST_GROUPS = 2000;
const LONGEST = 200;
const LONGEST_SAMPLE = 512;

export const createGroups = (): Groups => ({ byKey: new Map(), ungrouped: 0, isFull: false });

const VERSION = /^v\d{1,3}$/i;
const LONGEST_SEGMENT = 40;
const MOST_SEGMENTS = 12;

/** A path without what differs from one message to the next: `*` stands for a segment with a digit, or a very long one. */
export function shapeOf(path: string): string {
  const segments = path.split('/', MOST_SEGMENTS);
  const shape = segments.map(segment =>
    segment.length > LONGEST_SEGMENT || (/\d/.test(segment) && !VERSION.test(segment)) ? '*' : segment,
  );
  return boundText(shape.join('/'), LONGEST);
}

function placeNames({ address, routes }: Place): { urlHost: string; route: string } {
  if (!address) return { urlHost: NONE, route: NONE };
  const route = routes.ofPath(address.pathname);
  return {
    urlHost: boundText(address.host || NONE, LONGEST),
    route: route === UNMATCHED ? shapeOf(address.pathname) : route,
  };
}

export function addToGroups(groups: Groups, entry: DlqEntry, place: Place): void {
  const { byKey } = groups;
  const { urlHost, route } = placeNames(place);
  const responseStatus = entry.responseStatus === undefined ? NONE : String(entry.responseStatus);
  const parts = [urlHost, route, responseStatus, entry.errorClass ?? ''];
  const key = parts.join('\n');
  const known = byKey.get(key);
  if (known) known.messages += 1;
  else if (byKey.size === MOST_GROUPS) {
    groups.isFull = true;
    groups.ungrouped += 1;
  } else {
    const { dlqId } = entry;
    const sample = dlqId !== undefined && dlqId.length <= LONGEST_SAMPLE ? dlqId : undefined;
    byKey.set(key, { id: hashedId(parts, 12), urlHost, route, responseStatus, messages: 1, sample });
  }
}
