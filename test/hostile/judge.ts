import type { Scrape } from './scrape.ts';
import { endingsOf, type HostileService, LISTS } from './service.ts';
import { WELL } from './well-service.ts';

/** The part of GET /api/v1/status that is looked at. */
export interface Status {
  readonly accounts: readonly {
    readonly account: string;
    readonly collectors: readonly {
      readonly collector: string;
      readonly rounds: readonly { readonly success?: boolean; readonly failure?: { readonly reason: string } }[];
    }[];
  }[];
}

/** What is wrong with an account whose service is well; empty when nothing is. */
export function faultsOfWell(scrape: Scrape, account: string): string[] {
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
  expect('delivery_dlq_messages', [WELL.deadLetters]);
  expect('delivery_dlq_oldest_message_timestamp_seconds', [WELL.oldest]);
  expect('delivery_dlq_newest_message_timestamp_seconds', [WELL.newest]);
  expect('delivery_flow_control_keys', [Object.keys(WELL.waiting).length]);
  for (const [key, size] of Object.entries(WELL.waiting)) {
    expect('delivery_flow_control_waitlist_size', [size], { flow_control_key: key });
  }
  // Both ends of the window may fall on an event.
  for (const [state, count] of Object.entries(WELL.events))
    expect('delivery_events_recent', [count, count + 1], { state });
  for (const what of ['gaps', 'late', 'duplicates']) expect(`delivery_event_log_${what}_total`, [0]);
  return faults;
}

/** Events counted so far less the time of the newest, both in seconds: as there is one a second, it never changes. */
function eventsAhead(scrape: Scrape, account: string): number {
  const counted = scrape.values('delivery_events_total', { account });
  const newest = scrape.value('delivery_event_log_newest_timestamp_seconds', { account }) ?? Number.NaN;
  return counted.reduce<number>((sum, value) => sum + (value ?? Number.NaN), 0) - newest;
}

export interface WellWatch {
  /** Accounts that have not been right yet. */
  readonly awaited: ReadonlySet<string>;
  /** What is wrong with accounts that have been right before, or have had `patience` to become so. */
  faults(scrape: Scrape): string[];
}

/** Looks at the same accounts scrape by scrape. `patience` in milliseconds, from now on. */
export function createWellWatch(accounts: readonly string[], patience: number): WellWatch {
  const deadline = performance.now() + patience;
  const awaited = new Set(accounts);
  const ahead = new Map<string, number>();
  return {
    awaited,
    faults(scrape) {
      const found: string[] = [];
      for (const account of accounts) {
        const faults = faultsOfWell(scrape, account);
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

/** Requests that ended as a bug of the agent. */
export function bugsOf(scrape: Scrape): string[] {
  const counted = scrape.families.filter(({ name }) => /^delivery_watch_api_requests(_total)?$/.test(name));
  return counted
    .flatMap(({ samples }) => samples)
    .filter(({ labels, value }) => labels.outcome === 'bug' && value > 0)
    .map(({ labels }) => `${labels.account}: a bug at ${labels.endpoint}`);
}

/** What of a hostile service has not been reported yet as it must be; empty when all has. */
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
    // What takes for ever is given up at last.
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
