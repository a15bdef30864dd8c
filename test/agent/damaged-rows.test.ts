import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newFolder } from '../support/folder.ts';
import { ACCOUNT, startRecorded, writeStore } from '../support/recorded-store.ts';

const RECORDED = JSON.parse(readFileSync('test/contract/stores/1.0.0.json', 'utf8'));
const REMEDY = 'stop the agent and restore a backup of the store, as in docs/store.md';

/** Recorded rows, truncated. */
const rows = Object.entries<string>(RECORDED.rows[ACCOUNT]).flatMap(([key, value]) =>
  value.length > 20 ? [[key, value.slice(0, -5)] as const] : [],
);

/** Starts an agent with this row in its store. */
async function startWith(key: string, value: string) {
  const path = join(newFolder(), 'store.db');
  writeStore(path, { ...RECORDED, rows: { ...RECORDED.rows, [ACCOUNT]: { ...RECORDED.rows[ACCOUNT], [key]: value } } });
  const agent = await startRecorded(path, RECORDED.recordedAt);
  onTestFinished(() => agent.core.close());
  return agent;
}

describe('a truncated row of an account', () => {
  it.each(rows.filter(([key]) => !/^(history|auto-cancel)\//.test(key)))(
    'is named with its remedy: %s',
    async (key, value) => {
      const { core } = await startWith(key, value);
      const { problems } = (await core.served.views().report()).accounts[0] ?? {};
      expect(JSON.stringify(problems)).toContain(`the row ${key} is damaged: ${REMEDY}`);
    },
  );

  it.each(['null', '[1,', '', '\0'])('is named if it is the checkpoint %s', async value => {
    const { core } = await startWith('events/checkpoint', value);
    expect(JSON.stringify(await core.served.views().report())).toContain(
      `the row events/checkpoint is damaged: ${REMEDY}`,
    );
  });
});

it.each(rows.filter(([key]) => key.startsWith('auto-cancel/')))(
  'a truncated line of the journal is a problem and an alert: %s',
  async (key, value) => {
    const { core, until } = await startWith(key, value);
    const text = `Auto-cancel is off: the row ${key} of the account acme is damaged: ${REMEDY}`;
    const problem = expect.objectContaining({ kind: 'auto_cancel_failed', text });
    expect((await core.served.views().report()).accounts[0]?.problems).toContainEqual(problem);
    expect(core.served.views().account(ACCOUNT)).toMatchObject({ problems: expect.arrayContaining([problem]) });
    await until(() => {
      const alerts = core.supervisor.alerting.alerts(ACCOUNT);
      const name = expect.objectContaining({ alertname: 'DeliveryAutoCancelUnresolved', kind: 'auto_cancel_failed' });
      expect(alerts).toContainEqual(expect.objectContaining({ labels: name, state: 'firing' }));
    });
  },
);
