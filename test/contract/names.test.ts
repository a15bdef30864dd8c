import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type PublicNames, publicNames } from '../../scripts/names.ts';

const FOLDER = join(import.meta.dirname, 'names');
const KINDS = ['metrics', 'alerts', 'config', 'commands', 'api'] as const;

/** Checks that this version has all public names of each listed version. RELEASING.md describes the files. */
describe.each(readdirSync(FOLDER))('names of %s', file => {
  const names: PublicNames = JSON.parse(readFileSync(join(FOLDER, file), 'utf8'));
  it.each(KINDS)('no public name of this kind was removed: %s', async kind => {
    expect(names[kind].length).toBeGreaterThan(20);
    const current = new Set((await publicNames())[kind]);
    expect(names[kind].filter(name => !current.has(name))).toEqual([]);
  });
});

it('public names include metric labels, command options and arguments, response properties, and the allowed values of configuration keys', async () => {
  const names = await publicNames();
  expect(names).toMatchObject({
    metrics: expect.arrayContaining(['delivery_dlq_left_total counter {reason}']),
    alerts: expect.arrayContaining(['DeliveryDlqGrowing']),
    config: expect.arrayContaining(['accounts[].name', 'autoCancel.mode = plan', 'store.history.keep']),
    commands: expect.arrayContaining(['message <id>', 'serve --config', 'auto-cancel pending --config']),
    api: expect.arrayContaining(['get /api/v1/report 200', 'Report.verdict']),
  });
});
