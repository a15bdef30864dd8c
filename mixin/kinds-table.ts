import { dlq } from '../src/collectors/dlq/dlq.ts';
import { ofRow } from './dashboard-links.ts';
import type { TableSpec } from './panel.ts';
import { level, levelBefore } from './queries.ts';

const { groupMessages } = dlq.families;
const perKind = { keep: ['account', 'group', 'url_host', 'response_status'] } as const;

/** Returns a table of the 50 largest kinds of dead letters, with their numbers an hour ago. */
export const kindsTable = (panel: Pick<TableSpec, 'title' | 'description' | 'width'>): TableSpec => ({
  ...panel,
  kind: 'table',
  labels: { account: 'Account', url_host: 'Host', response_status: 'Status', group: 'Kind' },
  widths: { Account: 130, Status: 75, Kind: 125 },
  columns: [
    { title: 'Messages', width: 130, expr: `topk(50, ${level(groupMessages, perKind)})`, bar: {} },
    { title: '1 h ago', width: 80, expr: `topk(50, ${levelBefore(groupMessages, '1h', perKind)})` },
  ],
  sortBy: ['Messages'],
  links: { Account: ofRow('dlq', 'overview') },
  noValue: 'no dead letters',
});
