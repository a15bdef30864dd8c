import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CallbackTracker,
  createTracker,
  isTrackerRow,
  MAX_SIGHTINGS,
  type TrackerOptions,
} from '../../../src/collectors/dlq/callback-tracker.ts';
import { hash64 } from '../../../src/kit/hash.ts';
import type { CallbackState, DlqEntry } from '../../../src/model/message.ts';
import { toDlqEntry } from '../../../src/upstream/wire.ts';

const MINUTE = 60_000;
const START = Date.UTC(2026, 0, 1);
const OPTIONS: TrackerOptions = {
  unreported: [{ match: { queue: { in: ['blind'] } }, except: {} }],
  maxGap: 30 * MINUTE,
};

const ID = /^(\S+?)(?:#(\S+))?$/;

/**
 * Creates rows from words. `a` is in progress, `a:success` is not. `a:blind` reports no state but is tracked; `a:none` is not
 * tracked. `a#m1` sets the id of the callback's message.
 */
function rows(words: string): DlqEntry[] {
  return words.split(' ').flatMap(word => {
    const [, name = '', messageId] = ID.exec(word) ?? [];
    const [dlqId, state = 'inprogress'] = name.split(':');
    const isReported = state !== 'blind' && state !== 'none';
    const info = isReported ? { failureCallbackInfo: { state: `CALLBACK_${state.toUpperCase()}`, messageId } } : {};
    const entry = word === '' ? undefined : toDlqEntry({ dlqId, queueName: state, ...info }, START);
    return entry ? [entry] : [];
  });
}

/** Creates an agent that can be killed. Committed rows survive. */
function createAgent(options = OPTIONS) {
  const stored = new Map<string, string>();
  let tracker: CallbackTracker = createTracker(options);
  return {
    stored,
    tracker: () => tracker,
    commit() {
      const changes = tracker.drainChanges();
      for (const { key, value } of changes) {
        if (value === null) stored.delete(key);
        else stored.set(key, value);
      }
      return changes;
    },
    /** `more`: options of the next process. */
    kill(more: Partial<TrackerOptions> = {}) {
      tracker = createTracker({ ...options, ...more }, new Map(stored));
    },
    /** Completes a walk at `minute`. Returns a word per sighting: id, minute of the first sighting, and number of snapshots. */
    walk(minute: number, words: string) {
      const { sightings } = tracker.observe(rows(words), START + minute * MINUTE);
      this.commit();
      expect(sightings.every(({ lastSeenAt }) => lastSeenAt === START + minute * MINUTE)).toBe(true);
      return sightings
        .map(({ entry, firstSeenAt, snapshots }) => `${entry.id}@${(firstSeenAt - START) / MINUTE}x${snapshots}`)
        .sort()
        .join(' ');
    },
  };
}

it.each([31_000, -31_000])(
  'the tracker restarts sightings if the clock was stepped by %d ms between two walks',
  step => {
    let offset = 1_000_000;
    const agent = createAgent({ ...OPTIONS, clockOffset: () => offset });
    agent.walk(0, 'a');
    offset += 29_000;
    expect(agent.walk(10, 'a')).toBe('a@0x2');
    offset += step;
    expect(agent.walk(20, 'a')).toBe('a@20x1');
    expect(agent.walk(30, 'a')).toBe('a@20x2');
  },
);

it.each(['while the agent runs', 'before it restarts'])(
  'the tracker restarts sightings of a walk during which the clock was stepped: %s',
  when => {
    let offset = 0;
    const agent = createAgent({ ...OPTIONS, clockOffset: () => offset });
    agent.walk(0, 'a');
    const walk = agent.tracker().begin();
    walk.add(rows('a'));
    offset += 31_000;
    walk.end(START + 10 * MINUTE);
    agent.commit();
    if (when === 'before it restarts') agent.kill();
    expect(agent.walk(20, 'a')).toBe('a@20x1');
    expect(agent.walk(30, 'a')).toBe('a@20x2');
  },
);

describe('tracker', () => {
  it('the tracker reports when a callback was first seen in progress, and in how many walks', () => {
    const agent = createAgent();
    expect(agent.walk(0, 'a b:success c:none')).toBe('a@0x1');
    expect(agent.walk(10, 'd a')).toBe('a@0x2 d@10x1');
    expect(agent.walk(40, 'a d e:blind')).toBe('a@0x3 d@10x2 e@40x1');
    expect(agent.walk(50, 'e:blind a')).toBe('a@0x4 e@40x2');
  });

  it.each(['', 'a:success', 'a:fail', 'a:canceled', 'a:who-knows', 'a:none', 'a:blind', 'a#m1'])(
    'the tracker ends the episode of entry a when a walk lists %j',
    shown => {
      const agent = createAgent();
      agent.walk(0, 'a');
      const episode = agent.tracker().facts()?.sightings[0]?.episode;
      agent.walk(10, shown);
      expect(agent.walk(20, 'a')).toBe('a@20x1');
      expect(agent.tracker().facts()?.sightings[0]?.episode).not.toBe(episode);
    },
  );

  it('the tracker starts another episode for another callback message, even after a restart', () => {
    const agent = createAgent();
    agent.walk(0, 'a#m1');
    const [first] = agent.tracker().facts()?.sightings ?? [];
    expect(agent.walk(10, 'a#m1')).toBe('a@0x2');
    expect(agent.tracker().facts()?.sightings[0]?.episode).toBe(first?.episode);
    agent.kill();
    expect(agent.walk(20, 'a#m1')).toBe('a@0x3');
    expect(agent.tracker().facts()?.sightings[0]?.episode).toBe(first?.episode);
    agent.kill();
    expect(agent.walk(20, 'a#m2')).toBe('a@20x1');
    expect(agent.walk(30, 'a')).toBe('a@30x1');
    const other = createAgent();
    other.walk(0, 'a#m2');
    expect(other.tracker().facts()?.sightings[0]?.episode).not.toBe(first?.episode);
  });

  it('the tracker restarts all episodes if the gap between walks is too long or time goes backwards', () => {
    const agent = createAgent();
    agent.walk(0, 'a b');
    expect(agent.walk(30, 'a b')).toBe('a@0x2 b@0x2');
    expect(agent.walk(60 + 1 / MINUTE, 'a b')).toBe(`a@${60 + 1 / MINUTE}x1 b@${60 + 1 / MINUTE}x1`);
    expect(agent.walk(70, 'a')).toBe(`a@${60 + 1 / MINUTE}x2`);
    expect(agent.walk(69, 'a')).toBe('a@69x1');
    expect(agent.walk(69, 'a')).toBe('a@69x2');
  });

  it('the tracker restarts all episodes if the allowed gap is reduced below the gap of earlier walks', () => {
    const agent = createAgent();
    agent.walk(0, 'a');
    expect(agent.walk(25, 'a')).toBe('a@0x2');
    agent.kill({ maxGap: 10 * MINUTE });
    expect(agent.walk(30, 'a')).toBe('a@30x1');
    expect(agent.walk(40, 'a')).toBe('a@30x2');
    agent.kill({ maxGap: 10 * MINUTE });
    expect(agent.walk(45, 'a')).toBe('a@30x3');
    // A larger allowed gap does not interrupt episodes.
    agent.kill();
    expect(agent.walk(70, 'a')).toBe('a@30x4');
  });

  it('the tracker counts an entry once even if it is listed twice, and ignores an entry with different states in its rows', () => {
    const agent = createAgent();
    agent.walk(0, 'a b c d#m1 e f:blind g');
    const words = 'a a b b:success c:fail c d#m1 d#m2 e e:none f:blind f:blind g:none g';
    expect(agent.walk(10, words)).toBe('a@0x2 e@0x2 f@0x2 g@0x2');
    expect(agent.walk(20, 'h:blind h i i:blind j:success j:blind k:blind k:success l:fail l l')).toBe('h@20x1 i@20x1');
    const states = agent.tracker().facts()?.sightings;
    expect(states?.map(({ entry }) => entry.callbackState)).toEqual(['in_progress', 'in_progress']);
  });

  it('the tracker discards the sightings of an incomplete walk', () => {
    const agent = createAgent();
    agent.walk(0, 'a');
    const before = agent.tracker().facts();
    agent.tracker().begin().add(rows('a:success b'));
    expect(agent.tracker().facts()).toBe(before);
    expect(agent.commit()).toEqual([]);
    expect(agent.walk(10, 'a b')).toBe('a@0x2 b@10x1');
  });

  it('the tracker stores a row for an episode at its start and deletes it at its end, without changes in between', () => {
    const agent = createAgent();
    const changes = (words: string, minute: number) => {
      agent.tracker().observe(rows(words), START + minute * MINUTE);
      return agent.commit().map(({ key, value }) => [key.startsWith('callbacks/') ? 'sighting' : key, value]);
    };
    const at = (minute: number) => START + minute * MINUTE;
    const [reported, unreported] = ['in_progress ', ' '].map(run => hash64(run).toString(36));
    expect(changes('a:success b:none', 0)).toEqual([]);
    expect(changes('a b:blind', 10)).toEqual([
      ['sighting', `[${at(10)},2,"${reported}"]`],
      ['sighting', `[${at(10)},2,"${unreported}"]`],
      ['callbacks', `[${at(10)},2,${OPTIONS.maxGap}]`],
    ]);
    expect(changes('a b:blind', 20)).toEqual([['callbacks', `[${at(20)},3,${OPTIONS.maxGap}]`]]);
    expect(changes('a', 30)).toEqual([
      ['sighting', null],
      ['callbacks', `[${at(30)},4,${OPTIONS.maxGap}]`],
    ]);
    expect([...agent.stored.keys()].filter(isTrackerRow)).toHaveLength(2);
    expect(changes('', 40)).toEqual([
      ['sighting', null],
      ['callbacks', null],
    ]);
    expect(agent.stored.size).toBe(0);
    expect(changes('', 50)).toEqual([]);
  });

  it('the tracker counts exactly one end for each callback that was seen in progress, even after a restart', () => {
    const agent = createAgent();
    agent.walk(0, 'a b c d e:success f:blind g#m1');
    expect(agent.tracker().ended()).toEqual({ success: 0, fail: 0, canceled: 0 });
    agent.kill();
    agent.walk(500, 'a:success b:fail c:canceled d:who-knows e:success f:success g:success#m2');
    agent.kill();
    agent.walk(510, 'a:success a b:fail c:canceled d:success');
    expect(agent.tracker().ended()).toEqual({ success: 1, fail: 1, canceled: 1 });
    agent.walk(520, 'a a:fail');
    agent.walk(530, 'a');
    agent.walk(540, '');
    expect(agent.tracker().ended()).toEqual({ success: 1, fail: 1, canceled: 1 });
  });

  it('the tracker counts walks of this process and reports whether the last one found any state', () => {
    const agent = createAgent();
    expect(agent.tracker().facts()).toBeUndefined();
    agent.walk(0, 'a:success');
    expect(agent.tracker().facts()).toEqual({
      at: START,
      walks: 1,
      maxGap: 30 * MINUTE,
      sightings: [],
      isPartial: false,
      reportsStates: true,
    });
    agent.walk(10, 'a');
    const before = agent.tracker().facts();
    const copy = structuredClone(before);
    agent.walk(20, 'a:none b:blind');
    expect(agent.tracker().facts()).toMatchObject({ walks: 3, reportsStates: false });
    expect(before).toEqual(copy);
    agent.kill();
    expect(agent.tracker().facts()).toBeUndefined();
    agent.walk(30, 'b:blind');
    expect(agent.tracker().facts()?.walks).toBe(1);
  });

  it('the tracker reports which entries were listed with a state in the current walk', () => {
    const walk = createAgent().tracker().begin();
    walk.add(rows('a b:success c:blind d:none'));
    expect(['a', 'b', 'c', 'd', 'e'].map(walk.hasState)).toEqual([true, true, false, false, false]);
  });

  it('the tracker limits the number of tracked callbacks, keeps known ones and sets isPartial', () => {
    const many = (from: number, count: number) => Array.from({ length: count }, (_, n) => `e${from + n}`).join(' ');
    const agent = createAgent();
    agent.walk(0, many(0, MAX_SIGHTINGS));
    expect(agent.tracker().facts()?.isPartial).toBe(false);
    agent.walk(10, `${many(MAX_SIGHTINGS, 3)} ${many(0, MAX_SIGHTINGS - 1)}`);
    const { isPartial, sightings = [] } = agent.tracker().facts() ?? {};
    expect([isPartial, sightings.length]).toEqual([true, MAX_SIGHTINGS - 1]);
    expect(sightings.every(({ snapshots }) => snapshots === 2)).toBe(true);
    agent.walk(20, `${many(MAX_SIGHTINGS, 2)} ${many(0, MAX_SIGHTINGS - 1)}`);
    const third = agent.tracker().facts();
    expect([third?.isPartial, third?.sightings.length]).toEqual([true, MAX_SIGHTINGS]);
    agent.walk(30, 'e1');
    expect(agent.tracker().facts()).toMatchObject({ isPartial: false, sightings: [{ snapshots: 4 }] });
    // A row with a state replaces the row of the same entry without one.
    agent.walk(40, `e1 ${many(2, MAX_SIGHTINGS - 2)} z:blind z`);
    expect(agent.tracker().facts()?.isPartial).toBe(false);
  });

  it('the tracker treats overlong texts as unreported, and ignores entries with overlong ids', () => {
    const entry = (fields: object) => ({ ...(rows('a')[0] as DlqEntry), ...fields });
    const sight = (fields: object) =>
      createAgent()
        .tracker()
        .observe([entry(fields)], START).sightings[0]?.entry;
    const long = 'x'.repeat(2048);
    expect(sight({ url: long, queue: `${long}x`, labels: ['y', long.slice(1)] })).toEqual(
      entry({ url: long, queue: undefined, labels: ['y', long.slice(1)] }),
    );
    expect(sight({ labels: ['y', long] })).toEqual(entry({ labels: [] }));
    expect(sight({ callbackMessageId: `${long}x` })).toEqual(entry({}));
    expect(sight({ id: 'i'.repeat(512) })).toBeDefined();
    expect(sight({ id: 'i'.repeat(513) })).toBeUndefined();
  });

  it('the tracker limits the total length of texts in sightings', () => {
    const big = (n: number) => ({
      ...(rows(`e${n}`)[0] as DlqEntry),
      url: 'u'.repeat(2048),
      labels: ['l'.repeat(2048)],
    });
    const { isPartial, sightings } = createAgent()
      .tracker()
      .observe(
        Array.from({ length: 9000 }, (_, n) => big(n)),
        START,
      );
    expect(isPartial).toBe(true);
    const held = sightings.length * 4096;
    expect(held).toBeGreaterThan(15 * 1024 * 1024);
    expect(held).toBeLessThan(16 * 1024 * 1024);
  });
});

interface Seen {
  readonly at: number;
  readonly rows: readonly DlqEntry[];
}

/** Returns the identity of an entry's run in one walk; undefined if it is not in progress. */
function reading({ rows }: Seen, id: string): string | undefined {
  const mine = rows.filter(row => row.id === id);
  const reported = mine.filter(row => row.callbackState !== undefined);
  const runs = new Set(reported.map(row => `${row.callbackState} ${row.callbackMessageId}`));
  if (runs.size > 1) return undefined;
  const [run] = runs;
  if (run !== undefined) return run.startsWith('in_progress') ? run : undefined;
  const unreported = mine.find(({ queue }) => queue === 'blind');
  return unreported && `blind ${unreported.callbackMessageId}`;
}

/** Reference implementation that re-evaluates all walks from the start. */
function naive(walks: readonly Seen[]) {
  const last = walks.at(-1) as Seen;
  const ids = [...new Set(last.rows.map(({ id }) => id))].filter(id => reading(last, id) !== undefined);
  return ids.sort().map(id => {
    let first = walks.length - 1;
    while (first > 0) {
      const [before, after] = walks.slice(first - 1, first + 1) as [Seen, Seen];
      const gap = after.at - before.at;
      if (gap < 0 || gap > OPTIONS.maxGap || reading(before, id) !== reading(last, id)) break;
      first -= 1;
    }
    return {
      id,
      firstSeenAt: walks[first]?.at,
      lastSeenAt: last.at,
      snapshots: walks.length - first,
      run: reading(last, id),
    };
  });
}

/** Returns the end of the run that the walk before found in progress; undefined if the walk after lists none. */
function endOf(before: Seen, after: Seen, id: string): string | undefined {
  const run = reading(before, id);
  return after.rows.find(
    ({ id: other, callbackState = '', callbackMessageId }) =>
      other === id && `in_progress ${callbackMessageId}` === run && /^(success|fail|canceled)$/.test(callbackState),
  )?.callbackState;
}

it('the tracker matches the reference despite failed walks, gaps, clock steps and kills', () => {
  const state = fc.constantFrom<CallbackState | undefined>(
    ...(['in_progress', 'in_progress', 'in_progress', 'success', 'fail', 'canceled', 'unknown', undefined] as const),
  );
  const row = fc
    .record({
      id: fc.constantFrom('a', 'b', 'c', 'd'),
      callbackState: state,
      callbackMessageId: fc.constantFrom(undefined, undefined, undefined, 'm1', 'm2'),
      queue: fc.constantFrom('blind', 'blind', 'none'),
    })
    .map(fields => ({ ...fields, labels: [] }) as unknown as DlqEntry);
  const step = fc.record({
    kind: fc.constantFrom('walk', 'walk', 'walk', 'walk', 'partial', 'kill', 'kill before commit'),
    wait: fc.oneof({ weight: 8, arbitrary: fc.nat(12) }, { weight: 1, arbitrary: fc.integer({ min: -3, max: 40 }) }),
    // Mostly unchanged entries, so that episodes continue.
    rows: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, fc.array(row, { maxLength: 7, size: 'max' })),
  });
  let longest = 0;
  let restored = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40, size: 'max' }), steps => {
      const agent = createAgent();
      let walks: Seen[] = [];
      let [now, current, isNew] = [START, [] as DlqEntry[], true];
      const episodes = new Map<string, string>();
      const ended = { success: 0, fail: 0, canceled: 0 };
      for (const { kind, wait, rows } of steps) {
        now += wait * MINUTE;
        current = rows ?? current;
        if (kind === 'partial') agent.tracker().begin().add(current);
        else if (kind === 'kill') agent.kill();
        else if (kind === 'kill before commit') {
          agent.tracker().observe(current, now);
          agent.kill();
        }
        isNew ||= kind.startsWith('kill');
        if (kind !== 'walk') continue;
        walks = [...walks, { at: now, rows: current }];
        const { sightings } = agent.tracker().observe(current, now);
        agent.commit();
        const [before, after] = walks.slice(-2);
        for (const id of before && after ? 'abcd' : '') {
          const state = endOf(before as Seen, after as Seen, id) as keyof typeof ended | undefined;
          if (state) ended[state] += 1;
        }
        expect(agent.tracker().ended()).toEqual(ended);
        const found = sightings
          .map(({ entry, episode, ...times }) => ({
            id: entry.id,
            run: reading({ at: 0, rows: [entry] }, entry.id),
            episode,
            ...times,
          }))
          .sort((a, b) => (a.id < b.id ? -1 : 1));
        expect(found.map(({ episode: _, ...rest }) => rest)).toEqual(naive(walks));
        for (const { id, firstSeenAt, snapshots, run, episode } of found) {
          // The episode id is constant during a run and never reused.
          const key = `${id} ${episode}`;
          const value = `${firstSeenAt} ${run}`;
          expect(episodes.get(key) ?? value).toBe(value);
          episodes.set(key, value);
          longest = Math.max(longest, snapshots);
          if (isNew && snapshots > 1) restored += 1;
        }
        isNew = false;
      }
      expect([...agent.stored.keys()].every(isTrackerRow)).toBe(true);
    }),
    { numRuns: 500 },
  );
  // Check that the generated walks exercised the property.
  expect(longest).toBeGreaterThan(5);
  expect(restored).toBeGreaterThan(50);
});
