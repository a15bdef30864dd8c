import { hashedId } from '../../kit/hash.ts';
import { boundText } from '../../kit/text.ts';
import type { DlqEntry } from '../../model/message.ts';
import { type Routes, UNMATCHED } from '../routes.ts';

export const NONE = '__none__';

/** Dead letters with the same host, route, status and error class. */
export interface Group {
  readonly id: string;
  readonly urlHost: string;
  /** Pattern that the path matches, else the path's shape. */
  readonly route: string;
  readonly responseStatus: string;
  messages: number;
  readonly sample: string | undefined;
}

export interface Groups {
  readonly byKey: Map<string, Group>;
  /** Unreadable entries, and entries of groups beyond `MAX_GROUPS`. */
  ungrouped: number;
  isFull: boolean;
}

export interface Destination {
  /** Undefined if the entry has no URL or an invalid one. */
  readonly address: URL | undefined;
  readonly routes: Routes;
}

/** Groups counted separately. A queue with more has other problems or belongs to a hostile service. */
export const MAX_GROUPS = 2000;
const MAX_LENGTH = 200;
const MAX_SAMPLE = 512;

export const createGroups = (): Groups => ({ byKey: new Map(), ungrouped: 0, isFull: false });

const VERSION = /^v\d{1,3}$/i;
const MAX_SEGMENT = 40;
const MAX_SEGMENTS = 12;

/** Replaces segments that are likely to differ between messages by `*`: very long ones, and any with a digit except versions. */
export function shapeOf(path: string): string {
  const segments = path.split('/', MAX_SEGMENTS);
  const shape = segments.map(segment =>
    segment.length > MAX_SEGMENT || (/\d/.test(segment) && !VERSION.test(segment)) ? '*' : segment,
  );
  return boundText(shape.join('/'), MAX_LENGTH);
}

function namesOf({ address, routes }: Destination): { urlHost: string; route: string } {
  if (!address) return { urlHost: NONE, route: NONE };
  const route = routes.ofPath(address.pathname);
  return {
    urlHost: boundText(address.host || NONE, MAX_LENGTH),
    route: route === UNMATCHED ? shapeOf(address.pathname) : route,
  };
}

export function addToGroups(groups: Groups, entry: DlqEntry, destination: Destination): void {
  const { byKey } = groups;
  const { urlHost, route } = namesOf(destination);
  const responseStatus = entry.responseStatus === undefined ? NONE : String(entry.responseStatus);
  const parts = [urlHost, route, responseStatus, entry.errorClass ?? ''];
  const key = parts.join('\n');
  const known = byKey.get(key);
  if (known) known.messages += 1;
  else if (byKey.size === MAX_GROUPS) {
    groups.isFull = true;
    groups.ungrouped += 1;
  } else {
    const { dlqId } = entry;
    const sample = dlqId !== undefined && dlqId.length <= MAX_SAMPLE ? dlqId : undefined;
    byKey.set(key, { id: hashedId(parts, 12), urlHost, route, responseStatus, messages: 1, sample });
  }
}
