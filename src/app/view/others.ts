import type { AccountView } from '../../http/api/account.ts';
import type { Problem } from '../../http/api/parts.ts';
import type { PlacedStatus, ShownAlert } from '../../http/served.ts';
import type { Clock } from '../../kit/clock.ts';
import { createTurns } from '../../kit/turns.ts';
import { createAccountMeter } from '../../metrics/own.ts';
import type { AccountStatus, CollectorStatus } from '../../model/status.ts';
import type { AccountSettings } from '../account-client.ts';
import { accountView, stateOf, type Viewed } from './account.ts';
import type { Told as ToldPart } from './auto-cancel.ts';
import type { Found, Mirror } from './mirror.ts';
import { makeRow, type Row } from './overview-rows.ts';
import { byWeight, unheldProblems } from './problems.ts';
import type { Summary, Told } from './summary.ts';
import { roundsOf } from './truth.ts';
import { isoTime } from './values.ts';

/** Accounts of the configuration that this replica does not hold, as their holders told of them. */
export interface Others {
  readonly names: readonly string[];
  /** Other work gets its turn meanwhile. */
  rows(): Promise<readonly Row[]>;
  alerts(): readonly ShownAlert[];
  statuses(): readonly PlacedStatus[];
  /** Undefined where none of them has that name. */
  account(name: string): AccountView | undefined;
  autoCancel(): readonly ToldPart[];
  /** When the journal of auto-cancel last got a line, milliseconds since the Unix epoch; undefined where that is not known. */
  journalAt(name: string): number | undefined;
  /** Those that track a failure callback of this dlqId or messageId. */
  tracking(id: string): readonly string[];
}

export interface OthersDeps {
  readonly mirror: Mirror;
  /** Of these accounts. */
  readonly settings: readonly AccountSettings[];
  readonly clock: Clock;
  /** Whether the database does not answer. */
  readonly isAway: () => boolean;
}

/** Milliseconds after which numbers are too old to be shown. */
const WITHDRAWN = 15 * 60_000;

/** Those that read, as configured: none has read anything. */
const unreadCollectors = ({ flowControl, dlq, events }: AccountSettings['collect']): CollectorStatus[] =>
  Object.entries({ flow_control: flowControl, dlq, events })
    .filter(([, { enabled }]) => enabled)
    .map(([collector]) => ({ collector, withdrawn: false, rounds: [] }));

/** An account of which nothing is known but what the configuration says. */
const unread = (settings: AccountSettings): Viewed => ({
  account: {
    name: settings.name,
    shownStatus: () => ({ account: settings.name, up: false, collectors: unreadCollectors(settings.collect) }),
    shown: () => ({}),
    meter: createAccountMeter({ requests: [], bytes: [], collectors: [] }, () => 0),
    budgetRemaining: () => undefined,
    isTokenRejected: () => undefined,
  },
  settings,
  autoCancel: undefined,
  sources: [],
  recent: () => [],
  firstSeen: () => undefined,
});

type Collector = Summary['status']['collectors'][number];

/** What JSON leaves out is undefined. */
const collectorOf = ({ rounds, failedFilters, ...collector }: Collector): CollectorStatus => ({
  ...collector,
  ...(failedFilters && { failedFilters }),
  rounds: rounds.map(({ partial, ...round }) => ({
    ...round,
    success: round.success,
    complete: round.complete,
    durationSeconds: round.durationSeconds,
    dataAt: round.dataAt,
    idle: round.idle,
    failure: round.failure,
    ...(partial === undefined ? {} : { partial }),
  })),
});

const statusOf = (account: string, { status }: Summary): AccountStatus => ({
  account,
  up: status.up,
  collectors: status.collectors.map(collectorOf),
});

const UNREADABLE: Omit<Problem, 'account'> = {
  kind: 'not_shown',
  severity: 'warning',
  subject: null,
  since: null,
  text: 'What the replica that holds this account tells of it is not readable by this version: it runs another one. See the page of that replica.',
  runbook: null,
};

export function createOthers({ mirror, settings, clock, isAway }: OthersDeps): Others {
  const byName = new Map(settings.map(each => [each.name, each]));
  const names = [...byName.keys()];
  const beganAt = clock.monotonic();
  const ageOf = (at: number) => Math.max(0, (mirror.now() ?? at) - at);
  /** By our own clock: those of replicas may differ. */
  const asOfText = (at: number) => isoTime(clock.now() - ageOf(at));

  /** What was told, unless it is too old. */
  function shown<T>(found: Found<T>): Told<T> | undefined {
    return found === undefined || found === 'unreadable' || ageOf(found.at) > WITHDRAWN ? undefined : found;
  }

  /** What keeps an account from being shown as it is. */
  function problemsOf(account: string): Problem[] {
    const found = mirror.summary(account);
    if (found === 'unreadable' && mirror.holderOf(account)) return [{ account, ...UNREADABLE }];
    const age = found === undefined || found === 'unreadable' ? undefined : ageOf(found.at);
    const now = clock.now();
    return unheldProblems(
      {
        now,
        holder: mirror.holderOf(account)?.url,
        unheldFor: mirror.unheldFor(account),
        age,
        waitedFor: clock.monotonic() - beganAt,
        leaseTime: mirror.leaseTime,
        isAway: isAway(),
      },
      account,
    );
  }

  const replicaOf = (account: string) => mirror.holderOf(account)?.url ?? null;

  function rowOf(own: AccountSettings): Row {
    const { name } = own;
    const told = shown<Summary>(mirror.summary(name));
    const { row, up, problems } = told?.body ?? makeRow(unread(own), clock.now());
    const found = problemsOf(name);
    const all = [...found, ...problems].sort(byWeight);
    const isBlind = found.length > 0;
    return {
      up: up && !isBlind,
      problems: all,
      row: {
        ...row,
        // As it is configured here.
        account: name,
        labels: own.labels,
        state: isBlind ? stateOf(all, [row.data]) : row.state,
        data: isBlind && told ? 'stale' : row.data,
        problems: all.length,
        worst: all[0] ?? null,
        replica: replicaOf(name),
        asOf: told ? asOfText(told.at) : null,
      },
    };
  }

  function alertsOf(account: string): readonly ShownAlert[] {
    return (shown<Summary>(mirror.summary(account))?.body.alerts ?? []).map(
      ({ silencedBy, startsAt, endsAt, ...alert }) => ({
        ...alert,
        ...(silencedBy === undefined ? {} : { silencedBy }),
        ...(startsAt === undefined ? {} : { startsAt }),
        ...(endsAt === undefined ? {} : { endsAt }),
      }),
    );
  }

  return {
    names,
    async rows() {
      const turns = createTurns();
      const rows: Row[] = [];
      for (const each of settings) {
        rows.push(rowOf(each));
        await turns.pass();
      }
      return rows;
    },
    alerts: () => names.flatMap(alertsOf),
    statuses: () =>
      names.map(account => {
        const told = shown<Summary>(mirror.summary(account));
        const replica = replicaOf(account);
        return {
          ...(told ? statusOf(account, told.body) : { account, collectors: [] }),
          up: told?.body.status.up === true && problemsOf(account).length === 0,
          ...(replica === null ? {} : { replica }),
          ...(told ? { asOf: Math.round(clock.now() - ageOf(told.at)) } : {}),
        };
      }),
    account(name) {
      const own = byName.get(name);
      if (!own) return undefined;
      const now = clock.now();
      const told = shown(mirror.whole(name));
      const summary = shown<Summary>(mirror.summary(name));
      const view: AccountView = { ...accountView(unread(own), [], now), ...told?.body };
      const found = problemsOf(name);
      const problems = [...found, ...(summary?.body.problems ?? [])].sort(byWeight);
      const as = told ?? summary;
      return {
        ...view,
        account: name,
        now: isoTime(now) ?? '',
        up: summary?.body.up === true && found.length === 0,
        state: found.length > 0 ? stateOf(problems, []) : (summary?.body.row.state ?? view.state),
        problems,
        alerts: summary?.body.alerts ?? [],
        rounds: summary ? roundsOf(statusOf(name, summary.body)) : [],
        replica: replicaOf(name),
        asOf: as ? asOfText(as.at) : null,
      };
    },
    autoCancel: () =>
      names.flatMap(account => {
        const told = shown<Summary>(mirror.summary(account));
        const own = told?.body.autoCancel;
        if (!told || !own) return [];
        const { brakes, rules, journalAt, tracked } = own;
        const candidates = shown(mirror.candidates(account))?.body ?? [];
        const asOf = asOfText(told.at);
        return [{ account, brakes: { ...brakes, asOf }, rules, journalAt, tracked, candidates }];
      }),
    journalAt(account) {
      const found = mirror.summary(account);
      // Of what can't be read it may be now.
      return found === 'unreadable' ? Number.POSITIVE_INFINITY : found?.body.autoCancel?.journalAt;
    },
    tracking: id =>
      names.filter(account =>
        shown(mirror.candidates(account))?.body.some(({ dlqId, messageId }) => dlqId === id || messageId === id),
      ),
  };
}
