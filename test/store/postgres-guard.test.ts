import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { attachPostgresStore } from '../../src/store/postgres.ts';
import { createChance } from '../support/chance.ts';
import { eventually } from '../support/eventually.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { openHeld, settingsOf } from './postgres-held.ts';

const GUARD = { account: '', key: 'brake', value: 'running' };
const brake = (value: string) => [{ key: 'brake', value }];
const outcomeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'written',
    error => error.reason,
  );

describe.skipIf(!postgresIsThere())('guarded commits in PostgreSQL', () => {
  const postgres = postgresForTests();

  async function setUp() {
    const url = await postgres().createDatabase();
    const agent = await openHeld(url);
    const operator = await attachPostgresStore(settingsOf(url), { env: {} });
    onTestFinished(async () => {
      await operator.close();
      await agent.close();
    });
    await operator.command(brake('running'));
    return { url, agent, operator };
  }

  it.each([
    ['COMMIT', 'guard_failed', 0],
    ['ROLLBACK', 'written', 1],
  ])(
    'a guarded commit waits for a transaction that changes its guard; after %s, its result is %s',
    async (end, outcome, rows) => {
      const { url, agent } = await setUp();
      const other = new Client(url);
      await other.connect();
      onTestFinished(() => other.end());
      await other.query('BEGIN');
      await other.query(`UPDATE delivery_watch.rows SET value = 'paused' WHERE account = '' AND key = 'brake'`);
      const guarded = outcomeOf(agent.commit('a', [{ key: 'intent', value: '1' }], GUARD));
      // The other lane continues: accounts a and b are in different lanes.
      await agent.commit('b', [{ key: 'k', value: '1' }]);
      await eventually(async () => {
        const waiting = await other.query('SELECT 1 FROM pg_locks WHERE NOT granted');
        expect(waiting.rowCount).toBeGreaterThan(0);
      });
      await other.query(end);
      expect(await guarded).toBe(outcome);
      expect((await agent.scan('a', 'intent')).size).toBe(rows);
    },
  );

  it('a guarded commit is never written after the commit that changed its guard has returned, regardless of concurrent commits', async () => {
    const { agent, operator } = await setUp();
    const chance = createChance();
    let [written, refused] = [0, 0];
    for (let round = 0; round < 60; round += 1) {
      await operator.command(brake('running'));
      let stopped = false;
      const writers = ['a', 'b', 'c'].map(async account => {
        for (let n = 0; !stopped; n += 1) {
          const outcome = await outcomeOf(agent.commit(account, [{ key: `${round}/${n}`, value: 'x' }], GUARD));
          if (outcome === 'guard_failed') refused += 1;
          else written += 1;
          if (outcome === 'guard_failed') return;
          expect(outcome).toBe('written');
        }
      });
      await new Promise(resolve => setTimeout(resolve, chance.between(0, 6)));
      await operator.command(brake('paused'));
      const countAll = async () =>
        (await Promise.all(['a', 'b', 'c'].map(account => operator.scan(account, `${round}/`)))).map(
          ({ size }) => size,
        );
      const atReturn = await countAll();
      await Promise.all(writers);
      stopped = true;
      expect(await countAll()).toEqual(atReturn);
    }
    expect([written > 60, refused]).toEqual([true, 180]);
  });
});
