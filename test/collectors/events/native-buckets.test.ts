import { expect, it } from 'vitest';
import { restoreMemory } from '../../../src/collectors/events/rows.ts';
import { createDestinationTally } from '../../../src/collectors/events/tally.ts';
import { NO_ROUTES } from '../../../src/collectors/routes.ts';

const READ_TO = 1_800_000_000_000;

it.each([true, false])(
  'resets stored histograms that lack native buckets only if histograms by destination are exposed: %s',
  shown => {
    const destination = { ...createDestinationTally(), heard: 1 };
    destination.queueWait.counts[2] = 7;
    const rows = new Map([
      ['checkpoint', JSON.stringify({ readTo: READ_TO, destination: 'host' })],
      ['destination/host/a.example.com', JSON.stringify(destination)],
    ]);
    const options = { destination: 'host', maxDestinations: 5, destinationHistograms: shown } as const;
    const memory = restoreMemory(rows, options, { routes: NO_ROUTES });
    const { queueWait } = memory.destinations.of('a.example.com', READ_TO).tally;
    expect([queueWait.native === undefined, queueWait.counts[2]]).toEqual([!shown, shown ? 0 : 7]);
    expect(memory.destinations.of('new.example.com', READ_TO).tally.queueWait.native === undefined).toBe(!shown);
  },
);
