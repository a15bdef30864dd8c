import { HEALTHY } from './healthy-service.ts';
import type { Scrape } from './scrape.ts';
import { endingsOf, type HostileService, LISTS } from './service.ts';

/** The checked part of GET /api/v1/status. */
export interface Status {
  readonly accounts: readonly {
    readonly account: string;
    readonly collectors: readonly {
      readonly collector: string;
      readonly rounds: readonly { readonly success?: boolean; readonly failure?: { readonly reason: string } }[];
    }[];
  }[];
}

/** Returns the errors in the metrics of a healthy account. */
export function errorsOfHealthy(scrape: Scrape, account: string): string[] {
  const faults: string[] = [];
  const expect = (name: string, wanted: readonly number[], labels: Readonly<Record<string, string>> = {}) => {
    for (const value of scrape.values(name, { account, ...labels }, 1)) {
      if (value !== undefined && wanted.includes(value)) continue;
      faults.push(
        `${account}: ${name}${JSON.stringify(Object.values(labels))} is ${value}, not ${wanted.join(' or ')}`,
      );
    }
  };
  expect('delivery_up', [1]);
  expect('delivery_token_rejected', [0]);
  for (const collector of LISTS) expect('delivery_collector_data_stale', [0], { collector });
  for (const collector of LISTS) expect('delivery_rows_rejected_total', [0], { collector });
  expect('delivery_dlq_messages', [HEALTHY.deadLetters]);
  expect('delivery_dlq_oldest_entered_timestamp_seconds', [HEALTHY.oldest]);
  expect('delivery_flow_control_keys', [Object.keys(HEALTHY.waiting).length]);
  for (const [key, size] of Object.entries(HEALTHY.waiting)) {
    expect('delivery_flow_control_waitlist_size', [size], { flow_control_key: key });
  }
  // A window whose start and end both coincide with an event contains one more event.
  for (const [state, count] of Object.entries(HEALTHY.events))
    expect('delivery_events_recent', [count, count + 1], { state });
  for (const what of ['gaps', 'late', 'duplicates']) expect(`delivery_event_log_${what}_total`, [0]);
  return faults;
}

/**
 * Returns the number of counted events minus the time of the newest event (s). The difference is constant, because one event is
 * added per second.
 */
function eventsAhead(scrape: Scrape, account: string): number {
  const counted = scrape.values('delivery_events_total', { account });
  const newest = scrape.value('delivery_event_log_newest_timestamp_seconds', { account }) ?? Number.NaN;
  return counted.reduce<number>((sum, value) => sum + (value ?? Number.NaN), 0) - newest;
}

export interface HealthyWatch {
  /** Accounts without correct metrics so far. */
  readonly awaited: ReadonlySet<string>;
  /** Returns the errors of accounts that were correct in an earlier scrape; after `timeout`, the errors of all accounts. */
  faults(scrape: Scrape): string[];
}

/** Creates a watch that checks the accounts in each scrape. `timeout` (ms) starts at this call. */
export function createHealthyWatch(accounts: readonly string[], timeout: number): HealthyWatch {
  const deadline = performance.now() + timeout;
  const awaited = new Set(accounts);
  const ahead = new Map<string, number>();
  return {
    awaited,
    faults(scrape) {
      const found: string[] = [];
      for (const account of accounts) {
        const faults = errorsOfHealthy(scrape, account);
        if (awaited.has(account) && faults.length > 0 && performance.now() < deadline) continue;
        if (faults.length === 0) awaited.delete(account);
        found.push(...faults);
        const now = eventsAhead(scrape, account);
        const before = ahead.get(account) ?? now;
        ahead.set(account, before);
        if (faults.length === 0 && now !== before) found.push(`${account}: ${now - before} events too many`);
      }
      return found;
    },
  };
}

/** Returns the accounts and endpoints that have requests with the outcome `bug`. */
export function bugsOf(scrape: Scrape): string[] {
  const counted = scrape.families.filter(({ name }) => /^delivery_watch_api_requests(_total)?$/.test(name));
  return counted
    .flatMap(({ samples }) => samples)
    .filter(({ labels, value }) => labels.outcome === 'bug' && value > 0)
    .map(({ labels }) => `${labels.account}: a bug at ${labels.endpoint}`);
}

/** Returns the expected reports that the agent does not show yet about a hostile service. */
export function missingOf(service: HostileService, scrape: Scrape, status: Status): string[] {
  const { name: account, counted = 'each', shows = {} } = service;
  const missing: string[] = [];
  const requests = (endpoint: string, outcome: string) =>
    scrape.value('delivery_watch_api_requests_total', { account, endpoint, outcome }) ?? 0;
  const endings = endingsOf(service);
  for (const list of LISTS) {
    const ending = endings[list];
    const rounds = status.accounts
      .find(each => each.account === account)
      ?.collectors.find(({ collector }) => collector === list)?.rounds;
    const ends = rounds?.map(({ success, failure }) => failure?.reason ?? (success ? 'ok' : 'unending')) ?? [];
    // The agent eventually aborts an endless read with `invalid_response`.
    const isEnd = ends.includes(ending) || (ending === 'unending' && ends.includes('invalid_response'));
    if (!isEnd) missing.push(`${list} ends with ${ends}, not ${ending}`);
    if (counted === 'each' && requests(list, ending) === 0)
      missing.push(`no request for ${list} is counted as ${ending}`);
  }
  if (counted === 'any' && LISTS.every(list => requests(list, endings[list]) === 0)) {
    missing.push(`no request is counted as ${Object.values(endings)}`);
  }
  const up = Number(LISTS.every(list => endings[list] === 'ok'));
  if (scrape.value('delivery_up', { account }) !== up) missing.push(`delivery_up is not ${up}`);
  for (const [name, wanted] of Object.entries(shows)) {
    const value = scrape.value(name, { account });
    if (value !== wanted) missing.push(`${name} is ${value}, not ${wanted}`);
  }
  return missing;
}
