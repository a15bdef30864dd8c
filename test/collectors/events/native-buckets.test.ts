import { expect, it } from 'vitest';
import { restoreMemory } from '../../../src/collectors/events/rows.ts';
import { createDestinationTally, createLogTally } from '../../../src/collectors/events/tally.ts';
import { NO_ROUTES } from '../../../src/collectors/routes.ts';

const READ_TO = 1_800_000_000_000;

/** As a version without native buckets left it. */
const old = (tally: object) =>
  JSON.parse(JSON.stringify(tally, (key, value) => (key === 'native' ? undefined : value)));

it.each([true, false])('begin where the rows of an earlier version end; those of destinations if shown: %s', shown => {
  const log = old(createLogTally());
  log.attempts.delivered = { counts: [3, 0, 0, 0, 0, 0, 0, 0], sum: 3 };
  const destination = { ...old(createDestinationTally()), heard: 1 };
  destination.queueWait.counts[2] = 7;
  const rows = new Map([
    ['checkpoint', JSON.stringify({ readTo: READ_TO, destination: 'host' })],
    ['log', JSON.stringify(log)],
    ['destination/host/a.example.com', JSON.stringify(destination)],
  ]);
  const options = { destination: 'host', maxDestinations: 5, destinationHistograms: shown } as const;
  const memory = restoreMemory(rows, options, { routes: NO_ROUTES });
  expect(memory.log).toMatchObject({
    attempts: {
      delivered: {
        counts: log.attempts.delivered.counts,
        native: { later: { since: READ_TO, before: 3 }, counts: [] },
      },
      failed: { native: { schema: 3, counts: [] } },
    },
  });
  expect(memory.log.attempts.failed.native?.later).toBeUndefined();
  const { queueWait } = memory.destinations.of('a.example.com', READ_TO).tally;
  expect(queueWait.native?.later).toEqual(shown ? { since: READ_TO, before: 7, sum: 0 } : undefined);
  expect(memory.destinations.of('new.example.com', READ_TO).tally.queueWait.native === undefined).toBe(!shown);
});
