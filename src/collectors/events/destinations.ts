import { memoize } from '../../kit/memo.ts';
import { boundText, parseUrl, pathAddress } from '../../kit/text.ts';
import type { DeliveryEvent } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import type { Routes } from '../routes.ts';
import { createTallies, type Stored } from '../tallies.ts';
import { createDestinationTally, type DestinationTally } from './tally.ts';

export const DESTINATIONS = ['none', 'host', 'route', 'workflowUrl', 'topic', 'queue', 'label', 'schedule'] as const;
export type DestinationOption = (typeof DESTINATIONS)[number];

export const NONE = '';

const MAX_LENGTH = 200;
/** Maximum total length of the cached addresses (characters). */
const MAX_CACHED = 2 ** 18;

/** Returns a function that maps events to values of the label `destination`. */
export function destinationReader(option: DestinationOption, routes: Routes): (event: DeliveryEvent) => string {
  if (option === 'none') return () => NONE;
  if (option === 'route') return ({ url }) => (url === undefined ? NONE : routes.of(url));
  if (option === 'host' || option === 'workflowUrl') {
    const nameOf = option === 'host' ? (url: string) => parseUrl(url)?.host ?? NONE : pathAddress;
    const cached = memoize(url => boundText(nameOf(url), MAX_LENGTH), MAX_CACHED);
    return ({ url, workflowUrl }) => cached((option === 'host' ? url : workflowUrl) ?? NONE);
  }
  // Each message has one destination: its first label.
  if (option === 'label') return ({ labels }) => boundText(labels?.[0] ?? NONE, MAX_LENGTH);
  return event => boundText(event[option] ?? NONE, MAX_LENGTH);
}

export type StoredTally = Stored<DestinationTally>;

export type Destinations = ReturnType<typeof createDestinations>;

export const createDestinations = (option: DestinationOption, max: number, stored: ReadonlyMap<string, StoredTally>) =>
  createTallies(
    {
      prefix: `destination/${option}/`,
      max,
      first: option === 'none' ? NONE : OTHER,
      create: createDestinationTally,
    },
    stored,
  );
