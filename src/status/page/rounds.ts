import { isOptional } from '../../collectors/index.ts';
import { roundName } from '../../model/status.ts';
import type { AccountView } from '../api/account.ts';
import { type ChartLine, figure } from './charts.ts';
import { ago, at, count, distance, lasting, serviceNowOf, things } from './format.ts';
import { type Html, html } from './html.ts';
import { named } from './problems.ts';
import { type Column, name, nextStep, type Round, section, shareBar, table, tile, tilePanel } from './tile.ts';

/** Titles by collector and round. */
export const ROUND_TITLES: Readonly<Record<string, string>> = {
  'dlq new': 'Dead letters: new entries',
  'dlq full': 'Dead letters: the whole queue',
  'events tail': 'Events: newest',
  'events sweep': 'Events: delayed ones',
  'flow_control list': 'Flow control: waitlists',
  'flow_control watch': 'Flow control: watched keys',
  'schedules schedules': 'Schedules',
  'queues queues': 'Queues',
  'runs runs': 'Workflow runs in progress for long',
  'account record': 'Record of the account',
  'account usage': 'Usage of the account',
};

const STATES: Readonly<Record<Round['state'], readonly [look: string, word: string]>> = {
  ok: ['state ok', 'current'],
  partial: ['tag partial', 'incomplete'],
  failing: ['state warning', 'failing'],
  stale: ['tag stale', 'stale'],
  withdrawn: ['tag withdrawn', 'withdrawn'],
  waiting: ['state unknown', 'waiting for another round'],
  not_due: ['state unknown', 'nothing to read yet'],
  absent: ['state unknown', 'not offered by the service'],
  not_read: ['tag unread', 'not read'],
};

function failure(round: Round, now: number): Html {
  const { failure, consecutiveFailures } = round;
  const times = consecutiveFailures > 0 && html`<small>${count(consecutiveFailures)} in a row</small>`;
  if (failure === null) return html`${times || '—'}`;
  return html`<b>${failure.reason.replaceAll('_', ' ')}</b>: ${name(failure.message)}${times}<small>${nextStep(round, now)}</small>`;
}

export function rounds(view: AccountView): Html {
  const now = Date.parse(view.now);
  const columns: Column<Round>[] = [
    {
      head: 'data',
      cell: ({ collector, round }) =>
        html`${ROUND_TITLES[`${collector} ${round}`] ?? `${collector} ${round}`}<small class="mono">${roundName({ collector, round })}</small>`,
    },
    {
      head: 'state',
      cell({ collector, state }) {
        const [look, word] = STATES[state];
        // Optional data that cannot be read is not a problem of the account.
        const isQuiet = isOptional(collector) && state !== 'ok' && state !== 'partial';
        return html`<span class="${isQuiet ? 'state unknown' : look}">${word}</span>`;
      },
    },
    {
      head: 'read at',
      cell: ({ dataAt }) => html`${at(dataAt, now)}${dataAt !== null && html`<small>${ago(dataAt, now)}</small>`}`,
    },
    { head: 'every', isNumber: true, cell: row => lasting(row.everySeconds) },
    { head: 'took', isNumber: true, cell: row => lasting(row.tookSeconds) },
    { head: 'last failure', isWide: true, cell: row => failure(row, now) },
  ];
  const none = html`<p class="soft">No data is read: all collectors of this account are disabled.</p>`;
  const body = table('Rounds: periodic reads of one kind of data', columns, view.rounds, { none });
  return section('rounds', 'Data freshness', body);
}

const SCHEDULE_STATES = {
  ok: ['ok', 'last on time'],
  missed: ['critical', 'missed'],
  late: ['warning', 'late'],
  failing: ['critical', 'failing'],
  paused: ['unknown', 'paused'],
  unknown: ['unknown', 'unknown'],
} as const;

export function schedules(view: AccountView): Html {
  const now = serviceNowOf(view);
  const columns: Column<AccountView['schedules'][number]>[] = [
    {
      head: 'schedule',
      cell: ({ id, ...row }) =>
        html`${name(row.name)}${id !== null && id !== row.name && html`<small class="mono">${name(id)}</small>`}`,
    },
    { head: 'destination', cell: row => (row.destination === null ? '—' : name(row.destination)) },
    {
      head: 'cron',
      cell: ({ cron, timeZone }) =>
        html`${cron === null ? '—' : name(cron)}${timeZone !== null && html`<small>${name(timeZone)}</small>`}`,
    },
    {
      head: 'state',
      cell({ state, lastStarted, lastDelivered, lastFailed, lastRun }) {
        const last = lastStarted ?? lastDelivered ?? lastFailed ?? lastRun;
        const [look, word] =
          state === 'ok' && last === null ? ['unknown', 'no start seen yet'] : SCHEDULE_STATES[state];
        return html`<span class="state ${look}">${word}</span>`;
      },
    },
    { head: 'next', cell: ({ state, next }) => (state === 'paused' ? '—' : ago(next, now)) },
    {
      head: 'started',
      cell: ({ lastStarted, lastRun, error }) =>
        html`${ago(lastStarted, now)}${lastRun !== null && html`<small>${lastRun.replace('_', ' ')}</small>`}${error !== null && html`<small>${name(error)}</small>`}`,
    },
    { head: 'last delivered', cell: row => ago(row.lastDelivered, now) },
    { head: 'last failed', cell: row => ago(row.lastFailed, now) },
    { head: 'missed', isNumber: true, cell: row => count(row.missed) },
    { head: 'late', isNumber: true, cell: row => count(row.late) },
    { head: 'unexpected', isNumber: true, cell: row => count(row.unexpected) },
  ];
  const isListed = view.rounds.some(({ collector, dataAt }) => collector === 'schedules' && dataAt !== null);
  const list = isListed ? 'the service lists none' : 'no list of the service has been read';
  const none = html`<p class="soft">None is configured (<code>schedules</code>), and ${list}.</p>`;
  const caption = 'Latest times, and numbers of missed, late and unexpected starts since the agent first ran';
  return section('schedules', 'Schedules', table(caption, columns, view.schedules, { none }));
}

export function workflowRuns(view: AccountView): Html | false {
  if (view.runs === null) return false;
  const { count: number, hasMore, olderThanSeconds, oldest } = view.runs;
  const atLeast = hasMore && number !== null && html`<span class="soft">at least </span>`;
  const body = tilePanel(
    tile('In progress for long', html`${atLeast}${count(number)}`, html`for more than ${lasting(olderThanSeconds)}`),
    oldest !== null &&
      tile(
        'Oldest of them',
        ago(oldest.createdAt, serviceNowOf(view)),
        html`${named(oldest.runId)}${oldest.url !== null && html` of ${named(oldest.url)}`}`,
      ),
  );
  return section('runs', 'Workflow runs', body);
}

const LOOKS = { ok: 'calm', rate_limited: 'odd', server: 'bad', network: 'muted', timeout: 'whole' } as const;
const CALLS: ChartLine = { family: 'delivery_watch_api_requests_total', by: 'outcome', looks: LOOKS };

export function callsSection({ now, calls: of, usage, clockSkewSeconds: skew }: AccountView): Html {
  const isRefused = of.tokenRejected === true;
  const left = 'Remaining budget today';
  const side = ['behind', 'same as', 'ahead of'][Math.sign(skew ?? 0) + 1];
  const body = html`${isRefused && html`<p class="note critical"><span class="tag refused">token rejected</span> The service rejects the token: nothing can be read.</p>`}
${tilePanel(
  tile(
    left,
    count(of.budgetRemaining),
    shareBar(of.budgetRemaining, of.budgetPerDay, left),
    html`of ${count(of.budgetPerDay)} a day`,
  ),
  usage !== null &&
    tile(
      'Requests of the account today',
      count(usage.requestsToday),
      shareBar(usage.requestsToday, usage.requestsPerDay, 'Requests of the account today', true),
      html`of ${count(usage.requestsPerDay)} that the plan allows, with ${things(usage.deadLetters, 'dead letter')}; ${ago(usage.at, Date.parse(now))}`,
    ),
  tile('Clock of the service', distance(skew), skew !== null && `${side} the agent’s`),
)}
${figure('calls', 'Calls by outcome', { kind: 'stack', lines: [CALLS] })}`;
  return section('calls', 'Calls', body);
}
