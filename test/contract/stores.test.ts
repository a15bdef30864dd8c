import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { version } from '../../src/kit/version.ts';
import { newFolder } from '../support/folder.ts';
import { giveOrder, operatorClock } from '../support/operators.ts';
import {
  ACCOUNT,
  createTracked,
  readStore,
  readVisible,
  startRecorded,
  writeStore,
} from '../support/recorded-store.ts';

const MINUTE = 60_000;
const FOLDER = join(import.meta.dirname, 'stores');
type Recorded = Awaited<ReturnType<typeof record>>;

const read = (file: string): Recorded => JSON.parse(readFileSync(join(FOLDER, file), 'utf8'));

/** Runs an agent until all parts have stored their rows. Returns its last data and its store. */
async function record() {
  const path = join(newFolder(), 'store.db');
  await createTracked(path);
  const { core, clock, change, accepted, until } = await startRecorded(path);
  await clock.advance(MINUTE);
  change(false);
  await until(async () => {
    const { counters, alerts, journal, history } = await readVisible(core);
    expect(Object.keys(counters)).toContain('delivery_schedule_missed_total schedule nightly');
    const firing = expect.stringContaining('firing');
    expect(alerts).toMatchObject({ Any: firing, DeliveryScheduleFailing: firing });
    expect(journal).toContainEqual(expect.objectContaining({ step: 'ended' }));
    expect(Object.keys(history).length).toBeGreaterThan(3);
  });
  const { store } = core.base;
  const operator = { store, accounts: [ACCOUNT], clock: operatorClock(clock), waitMs: 1000 };
  await giveOrder({ kind: 'pause', by: 'operator', reason: 'upgrade' }, operator);
  const visible = await until(async () => {
    const visible = await readVisible(core);
    expect(visible.journal.at(-1)).toMatchObject({ step: 'paused' });
    return visible;
  });
  await core.close();
  const notified = Object.fromEntries(accepted.map(each => [each, true]));
  return { recordedAt: clock.now(), notified, visible, ...readStore(path) };
}

/** Returns the kinds of rows: account and key, with `*` for each path segment that contains a digit. */
function kindsOf({ rows }: Pick<Recorded, 'rows'>): string[] {
  const kinds = Object.entries(rows).flatMap(([account, own]) =>
    Object.keys(own).map(key => `${account}: ${key.replace(/[^/]*\d[^/]*/g, '*')}`),
  );
  return [...new Set(kinds)].sort();
}

const byVersion = (one: string, other: string) => one.localeCompare(other, 'en', { numeric: true });

it('the newest recorded store has the same schema as a newly recorded store, and contains every kind of row in that store', async () => {
  const current = await record();
  if (process.env.RECORD_STORE) writeFileSync(join(FOLDER, `${version}.json`), `${JSON.stringify(current, null, 2)}\n`);
  const newest = read(readdirSync(FOLDER).sort(byVersion).at(-1) ?? '');
  expect(newest.schema).toEqual(current.schema);
  const recorded = new Set(kindsOf(newest));
  expect(kindsOf(current).filter(kind => !recorded.has(kind))).toEqual([]);
});

it.each(readdirSync(FOLDER))('an agent continues with the recorded store of %s', async file => {
  const recorded = read(file);
  const path = join(newFolder(), 'store.db');
  writeStore(path, recorded);
  const { core, clock, accepted, until } = await startRecorded(path, recorded.recordedAt);
  // Unsent notifications are sent after the restart.
  const queued = Object.keys(recorded.notified).map(each => each.replace('/up', '/down'));
  await until(() => {
    expect(accepted).toEqual(expect.arrayContaining([...queued, expect.stringMatching('^/pager ')]));
    expect(clock.now()).toBeGreaterThan(recorded.recordedAt + MINUTE);
  });
  // The receivers have another port, so they get each firing alert once. A restored alert keeps its start time.
  const alertOf = (notification: string) => notification.split(' ', 2).join(' ');
  const notified = new Set(Object.keys(recorded.notified).map(alertOf));
  const again = accepted.filter(each => notified.has(alertOf(each)));
  expect(again.toSorted()).toEqual(Object.keys(recorded.notified).toSorted());
  const visible = await readVisible(core);
  const { counters, budget, ...same } = recorded.visible;
  // The service has no new rows. Only missed starts of the schedule are still counted.
  const changed = Object.entries(counters).filter(([name, value]) => visible.counters[name] !== value);
  expect(changed.filter(([name]) => !name.startsWith('delivery_schedule_missed_total'))).toEqual([]);
  for (const [name, value] of changed) expect(visible.counters[name]).toBeGreaterThan(value);
  expect(visible.budget).toBeLessThan(budget ?? 0);
  expect(visible).toMatchObject(same);
  await core.close();
});
