import type { Clock } from '../kit/clock.ts';
import { pathAddress } from '../kit/text.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import { type StatusSettings, stateOf } from './account.ts';
import type { ReducedAccountView } from './api/account.ts';
import type { FromReplica, Problem } from './api/parts.ts';
import type { StatusRow } from './api/status-row.ts';
import type { AccountSnapshot } from './auto-cancel.ts';
import type { Holders } from './holders.ts';
import { NO_NUMBERS, notShown, type OverviewRow } from './overview-rows.ts';
import { byWeight, unheldProblems } from './problems.ts';
import type { PlacedStatus } from './served.ts';
import type { StatusRows } from './status-row.ts';
import { dataStatusOf, roundsOf } from './truth.ts';
import { iso, isoTime, orNull } from './values.ts';

/** Configured accounts that this replica does not hold, built from their status rows. */
export type OtherAccounts = ReturnType<typeof createOtherAccounts>;

interface OthersDeps {
  readonly stored: Pick<StatusRows, 'of'>;
  readonly holders: Holders;
  readonly settings: readonly StatusSettings[];
  readonly clock: Clock;
  readonly isUnavailable: () => boolean;
}

/** Age at which the numbers of a row are no longer shown (ms). */
const WITHDRAW_AFTER = 15 * 60_000;

const UNREADABLE =
  'This version cannot read the status that the holder of this account reports: the holder runs another version, or the row in the store is damaged.';

function createReports({ stored, holders, clock, isUnavailable }: Omit<OthersDeps, 'settings'>) {
  const startedAt = clock.monotonic();
  const ageOf = ({ at }: StatusRow) => Math.max(0, (holders.now() ?? at) - at);

  function rowOf(account: string): StatusRow | undefined {
    const found = stored.of(account);
    return found === 'unreadable' ? undefined : found;
  }

  function shownRow(account: string): StatusRow | undefined {
    const row = rowOf(account);
    return row && ageOf(row) <= WITHDRAW_AFTER ? row : undefined;
  }

  /** Returns problems of the report itself: the account has no holder, or its row is missing, old or unreadable. */
  function reportProblems(account: string): Problem[] {
    const holder = holders.holderOf(account);
    if (holder && stored.of(account) === 'unreadable') return [notShown(account, null, UNREADABLE)];
    const row = rowOf(account);
    const unheld = {
      now: clock.now(),
      holder: holder?.url,
      unheldFor: holders.unheldFor(account),
      age: row && ageOf(row),
      waitedFor: clock.monotonic() - startedAt,
      leaseTime: holders.leaseTime,
      isUnavailable: isUnavailable(),
    };
    return unheldProblems(unheld, account);
  }

  function standingOf(account: string) {
    const row = shownRow(account);
    const own = reportProblems(account);
    const isDoubtful = own.length > 0;
    const problems = [...own, ...(row?.problems ?? [])].sort(byWeight);
    const data = row?.row.data ?? 'not_read';
    const holder = holders.holderOf(account);
    // By this process's clock, because the clocks of replicas may differ.
    const asOf = row && clock.now() - ageOf(row);
    const place: FromReplica = {
      replica: orNull(holder?.url),
      publicUrl: holder && row ? row.publicUrl : null,
      holder: orNull(holder?.id),
      asOf: isoTime(asOf),
    };
    return {
      row,
      problems,
      total: own.length + (row?.row.problems ?? 0),
      up: row?.up === true && !isDoubtful,
      state: isDoubtful ? stateOf(problems, [data]) : (row?.row.state ?? 'unknown'),
      data: isDoubtful && row ? ('stale' as const) : data,
      asOf,
      place,
    };
  }

  return { rowOf, shownRow, standingOf };
}

type Standing = ReturnType<ReturnType<typeof createReports>['standingOf']>;

function overviewRow({ name: account, labels }: StatusSettings, standing: Standing): OverviewRow {
  const { row, problems, total, up, state, data, place } = standing;
  const listed = row?.alerts.filter(({ state }) => state === 'firing').length ?? 0;
  const worst = problems[0] ?? null;
  return {
    up,
    problems,
    unevaluated: row?.unevaluated ?? null,
    omittedFiring: (row?.alertsFiring ?? 0) - listed,
    row: { ...NO_NUMBERS, ...row?.row, account, labels, state, data, problems: total, worst, ...place },
  };
}

function reducedView(settings: StatusSettings, standing: Standing, now: number): ReducedAccountView {
  const { name: account, baseUrl, region, labels, collect } = settings;
  const { row, problems, total, up, state, place } = standing;
  const status = { collectors: row?.collectors ?? [] };
  const alerts = row?.alerts ?? [];
  const numbers = row?.row ?? NO_NUMBERS;
  const { finished, delivered: deliveredRatio } = numbers;
  const sectionOf = ({ enabled }: { readonly enabled: boolean }, collector: string) => ({
    enabled,
    data: dataStatusOf(status, collector).data,
  });
  return {
    complete: false,
    now: iso(now),
    account,
    ...place,
    state,
    up,
    baseUrl: pathAddress(baseUrl),
    region: orNull(region),
    plan: null,
    labels,
    problems,
    alerts,
    omitted: { problems: total - problems.length, alerts: (row?.alertsTotal ?? 0) - alerts.length },
    rounds: roundsOf(status),
    deadLetters: {
      ...sectionOf(collect.dlq, 'dlq'),
      messages: numbers.deadLetters,
      change: numbers.deadLettersChange,
      oldestEntered: numbers.oldestEntered,
    },
    events: {
      ...sectionOf(collect.events, 'events'),
      inFlight: numbers.inFlight,
      lastHour: finished && { overSeconds: finished.overSeconds, finished: finished.by, deliveredRatio },
    },
    flowControl: { ...sectionOf(collect.flowControl, 'flow_control'), waiting: numbers.waiting },
    schedules: null,
    calls: null,
  };
}

export function createOtherAccounts({ settings, ...deps }: OthersDeps) {
  const names = settings.map(({ name }) => name);
  const { rowOf, shownRow, standingOf } = createReports(deps);

  function statusOf(account: string): PlacedStatus {
    const { row, up, place, asOf } = standingOf(account);
    return {
      account,
      up,
      collectors: row?.collectors ?? [],
      ...(place.replica === null ? {} : { replica: place.replica }),
      ...(asOf === undefined ? {} : { asOf: Math.round(asOf) }),
    };
  }

  return {
    names,
    rows: (): readonly OverviewRow[] => settings.map(each => overviewRow(each, standingOf(each.name))),
    alerts: (): readonly ShownAlert[] => names.flatMap(account => shownRow(account)?.alerts ?? []),
    statuses: (): readonly PlacedStatus[] => names.map(statusOf),
    account(name: string): ReducedAccountView | undefined {
      const own = settings.find(each => each.name === name);
      return own && reducedView(own, standingOf(name), deps.clock.now());
    },
    autoCancel: (): readonly AccountSnapshot[] =>
      names.flatMap(account => {
        const { row, place } = standingOf(account);
        if (!row?.autoCancel) return [];
        const { brakes, ...rest } = row.autoCancel;
        return [{ account, brakes: { ...brakes, account, ...place }, ...rest, candidates: [] }];
      }),
    /** Returns the time of the last line of an account's journal (ms since the Unix epoch); undefined if unknown. */
    journalAt: (account: string): number | undefined =>
      // If the row is unreadable, the journal may contain a newer line than this replica has read.
      deps.stored.of(account) === 'unreadable' ? Number.POSITIVE_INFINITY : rowOf(account)?.autoCancel?.journalAt,
  };
}
