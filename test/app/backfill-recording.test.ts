import { expect, it } from 'vitest';
import { createRecording } from '../../src/app/backfill/recording.ts';
import { createSeriesFile } from '../../src/app/backfill/series-file.ts';
import { createEvents, type EventsFacts, events } from '../../src/collectors/events/events.ts';
import { createDestinationTally } from '../../src/collectors/events/tally.ts';

const options = events.options.parse({ destination: 'host' });

/** Facts with so many events created by destination. */
function factsOf(created: Readonly<Record<string, number>>): EventsFacts {
  const collector = createEvents(options);
  const facts = collector.recall?.(collector.restore(new Map()));
  if (!facts) throw new Error('no facts');
  const destinations = Object.entries(created).map(([name, count]) => {
    const tally = createDestinationTally();
    tally.events.created = count;
    return [name, tally] as const;
  });
  return { ...facts, destinations: new Map(destinations) };
}

/** What is written of created events, `value time` by destination. */
function record(
  points: readonly EventsFacts[],
  known: Omit<Parameters<typeof createRecording>[1], 'account' | 'isExposed' | 'isKnown'> & {
    readonly names?: readonly string[];
  },
) {
  const { names = [], ...rest } = known;
  const file = createSeriesFile(() => ({}));
  const recording = createRecording(file, {
    ...rest,
    account: 'a',
    isExposed: () => true,
    isKnown: name => names.includes(name),
  });
  file.begin(0);
  for (const [index, facts] of points.entries()) recording.add((index + 1) * 1000, facts);
  file.endPart(true);
  const lines = [...file.text()].join('').split('\n');
  file.close();
  const written = lines.flatMap(line => {
    const [, destination, point] =
      /^delivery_events_total\{.*state="created".*destination="(.*)"\} (.*)$/.exec(line) ?? [];
    return destination && point ? [`${destination} ${point}`] : [];
  });
  return { written, endedBefore: recording.endedBefore };
}

it('writes nothing that is more than what was shown afterwards, and nothing of the family after that', () => {
  const points = [factsOf({ x: 2, y: 1 }), factsOf({ x: 5, y: 1 }), factsOf({ x: 3, y: 2 })];
  const { written, endedBefore } = record(points, { before: factsOf({ x: 1, y: 1 }), after: factsOf({ x: 4, y: 2 }) });
  expect(written).toEqual(['x 2 1', 'y 1 1']);
  expect(endedBefore(1999)).toEqual([]);
  expect(endedBefore(2000).map(({ name }) => name)).toEqual(['delivery_events_total']);
});

it('begins a destination at 0 where it was never counted, and not where its number was merely not shown', () => {
  const points = [factsOf({ x: 2 }), factsOf({ x: 2, fresh: 1, hidden: 8 })];
  const { written } = record(points, { before: factsOf({ x: 1 }), after: undefined, names: ['x', 'hidden'] });
  expect(written).toEqual(['x 2 1', 'x 2 2', 'fresh 0 1', 'fresh 1 2', 'hidden 8 2']);
});
