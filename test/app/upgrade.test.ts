import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it, onTestFinished } from 'vitest';
import { startAgent } from '../../src/app/agent.ts';
import { parseConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, startHttpService } from '../support/http-service.ts';

const FOLDER = 'test/app/0.1.0';

/** The schema as version 0.1.0 made it. */
const SCHEMA = `
  CREATE TABLE rows (account TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (account, key)) STRICT, WITHOUT ROWID;
  PRAGMA application_id = ${0x64576368};
  PRAGMA user_version = 1`;

interface Row {
  readonly account: string;
  readonly key: string;
  readonly value: string;
}

/** What an agent of version 0.1.0 left, after 15 hours beside the emulator's scenario stuck-callback, and when. */
function readLeft(): { now: number; rows: Row[] } {
  const [first = '', ...lines] = readFileSync(join(FOLDER, 'store.jsonl'), 'utf8').trim().split('\n');
  return { now: (JSON.parse(first) as { now: number }).now, rows: lines.map(line => JSON.parse(line) as Row) };
}

const beginOf = (labels: object, startsAt: number) => JSON.stringify([Object.entries(labels).sort(), startsAt]);

/** Lines of samples, the labels of each in order. */
const linesOf = (text: string) =>
  text
    .split('\n')
    .filter(line => line !== '' && !line.startsWith('#'))
    .map(line => line.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(',').sort().join(',')}}`));

it('goes on from the store of version 0.1.0', async () => {
  const { now, rows } = readLeft();
  const path = join(newFolder(), 'x.db');
  const db = new DatabaseSync(path);
  db.exec(SCHEMA);
  const insert = db.prepare('INSERT INTO rows (account, key, value) VALUES (?, ?, ?)');
  db.exec('BEGIN');
  for (const { account, key, value } of rows) insert.run(account, key, value);
  db.exec('COMMIT');
  db.close();

  const service = await startHttpService((_, response) => json(response, { error: 'not now' }, 500));
  onTestFinished(() => service.close());
  const told = new Set<string>();
  const hook = await startHttpService((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', chunk => {
      text += chunk;
    });
    request.on('end', () => {
      for (const { labels, startsAt } of JSON.parse(text).alerts) told.add(beginOf(labels, Date.parse(startsAt)));
      json(response, {});
    });
  });
  onTestFinished(() => hook.close());
  const config = parseConfig(
    `
server: { listen: '127.0.0.1:0' }
log: { level: silent }
store: { path: '${path}' }
accounts: [{ name: main, baseUrl: '${service.url}', token: of-no-use }]
alerts:
  enabled: true
  rules: [{ name: DeadLetters, when: { above: { metric: delivery_dlq_messages, value: 0 } } }]
  notifiers: [{ name: hook, webhook: { url: '${hook.url}' } }]
autoCancel:
  mode: plan
  rules:
    - name: app-workflows-hung
      mode: enforce
      expires: 9999-12-31
      match: { workflowUrl: { prefix: ['https://app.example.com/'] } }
      stuckWhen: { inProgressFor: 8h, assumeMaxRetries: 4, snapshots: 8 }
      grace: 2h
      cooldown: { perUrl: 0s }
      notify: [hook]
`,
    'config.yaml',
    {},
    now,
  );
  const offset = systemClock.now() - now;
  const clock = { ...systemClock, now: () => systemClock.now() - offset };
  const agent = await startAgent(config, { env: {}, clock, random: Math.random });
  onTestFinished(() => agent.close());
  const metrics = linesOf(await (await fetch(`${agent.url}/metrics`)).text());
  const counters = linesOf(readFileSync(join(FOLDER, 'counters.prom'), 'utf8'));
  expect(counters.filter(line => !metrics.includes(line))).toEqual([]);

  expect(metrics).toContain('delivery_event_log_since_timestamp_seconds{account="main"} 1795310368.789');

  const isJournal = ({ key }: Row) => key.startsWith('auto-cancel/journal/');
  const lines = (await (await fetch(`${agent.url}/api/v1/journal?since=30d`)).json()) as unknown[];
  expect(lines.length).toBe(rows.filter(isJournal).length);

  // An end that waits, too, says when the alert began.
  const waiting = rows
    .filter(({ key }) => key.startsWith('alerts/outbox/'))
    .map(({ value }) => JSON.parse(value).notice as { labels: object; startsAt: number });
  expect(waiting.length).toBeGreaterThan(30);
  await eventually(() => {
    expect(waiting.map(({ labels, startsAt }) => beginOf(labels, startsAt)).filter(one => !told.has(one))).toEqual([]);
  });

  const alerts = await (await fetch(`${agent.url}/api/v1/alerts`)).text();
  expect(alerts).toContain('DeadLetters');
});
