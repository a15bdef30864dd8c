import { type AccountSettings, type ClientDeps, createAccountClient } from '../../agent/account-client.ts';
import { withDeadline } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { SecretSetting } from '../../kit/secret.ts';
import type { Tracer } from '../../kit/tracer.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import {
  createFilterProof,
  createReportedFields,
  type DlqQuery,
  type ListPage,
  type Reader,
} from '../../upstream/api.ts';
import { isOtherRegion, REQUEST_OUTCOMES, type Reason, UpstreamError } from '../../upstream/errors.ts';
import { CHECK_TIMEOUT, type Diagnosis, fail, ok, warn } from './checklist.ts';

const isReason = (outcome: unknown): outcome is Reason =>
  outcome !== 'ok' && REQUEST_OUTCOMES.some(each => each === outcome);

function createRecorder() {
  const requests: { readonly path: string; outcome: unknown }[] = [];
  return {
    count: (): number => requests.length,
    lastPath: () => requests.at(-1)?.path ?? '',
    /** Returns the reason of the last failure among the requests from index `since` on. */
    lastFailure: (since: number): Reason | undefined =>
      requests
        .slice(since)
        .map(({ outcome }) => outcome)
        .findLast(isReason),
    tracer: {
      headers: () => ({}),
      span(_name, attributes, work) {
        const request = { path: String(attributes['url.template']), outcome: undefined as unknown };
        requests.push(request);
        return work({
          set({ outcome = request.outcome }) {
            request.outcome = outcome;
          },
          fail() {},
        });
      },
    } satisfies Tracer,
  };
}

export interface ReadDeps extends Pick<ClientDeps, 'env' | 'dispatchers' | 'clock' | 'random' | 'secrets'> {
  readonly timeout?: number | undefined;
}

export interface ReadAttempt {
  readonly finding: Diagnosis;
  readonly reason?: Reason;
  readonly serviceError?: string | undefined;
}

/** Keys of `collect` for the checked lists. */
export type CheckedList = 'dlq' | 'events' | 'flowControl';

const DAY = 86_400_000;

const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };

const RETRIED = 'a running agent retries at least every 30 s by default';

const REMEDIES: Readonly<Record<Reason, string>> = {
  unauthorized: 'replace the token: docs/tokens.md',
  forbidden: 'give the token permission to read this, or disable the collector',
  not_found: 'check baseUrl',
  rate_limited: 'lower budget.requestsPerSecond, or try again later',
  server: `check the status page of the service; ${RETRIED}`,
  network: `check the network path: route, firewall, proxy; ${RETRIED}`,
  timeout: `check the network path: route, firewall, proxy; ${RETRIED}`,
  refused: 'check baseUrl and paths',
  invalid_response: 'the response has an unexpected format: check baseUrl and paths',
  bug: 'report this line',
};

function remedyOf({ reason, serviceError }: Pick<UpstreamError, 'reason' | 'serviceError'>): string {
  return isOtherRegion(reason, serviceError) ? 'the token belongs to another region: check baseUrl' : REMEDIES[reason];
}

/** Returns the finding of an attempt. A 404 shows that an endpoint is missing only if another attempt of the account succeeded. */
export function findingAmong(attempts: readonly ReadAttempt[], { finding, reason }: ReadAttempt): Diagnosis {
  const isMissing = reason === 'not_found' && finding.todo === REMEDIES.not_found;
  if (!isMissing || attempts.every(({ reason }) => reason !== undefined)) return finding;
  return { ...finding, todo: 'check paths, or disable the collector' };
}

const FILTER_REMEDY = 'check the match of the filter: docs/dead-letters.md#filters';

function placeOf(setting: SecretSetting): string {
  if ('env' in setting) return `in the environment variable ${setting.env}`;
  return 'file' in setting ? `in ${setting.file}` : 'in the configuration file';
}

function pageFinding(
  { count, rejected, incomplete }: { readonly count: number; readonly rejected: number; readonly incomplete: number },
  what: string,
  more = '',
): Diagnosis {
  const detail = `${count} ${what}${more}`;
  if (rejected + incomplete === 0) return ok(detail);
  const words = [
    rejected > 0 && `${rejected} unreadable rows`,
    incomplete > 0 && `${incomplete} rows with unreadable values`,
  ];
  const todo = 'see docs/runbooks/DeliveryRowsRejected.md';
  return warn([detail, ...words.filter(word => word !== false)].join(', '), todo);
}

async function firstPage<Row>(
  pages: AsyncIterator<ListPage<Row>>,
  what: string,
  take: (rows: readonly Row[]) => void = () => {},
): Promise<Diagnosis> {
  const next = await pages.next();
  if (next.done) return ok(`0 ${what}`);
  const { rows, rejected, incomplete, isLast } = next.value;
  take(rows);
  return pageFinding({ count: rows.length, rejected, incomplete }, what, isLast ? '' : ' on the first page');
}

/** Creates the reads of one account, with a separate budget. */
export function openReads(settings: AccountSettings, deps: ReadDeps) {
  const { collect, paths } = settings;
  const { timeout = CHECK_TIMEOUT, clock } = deps;
  const recorder = createRecorder();
  const client = createAccountClient(settings, {}, undefined, {
    ...deps,
    requestSeconds: { observe() {} },
    log: quiet,
    tracer: recorder.tracer,
  });
  const reader: Reader = client.at('look');
  let listedKey: string | undefined;
  const reported = createReportedFields(collect.dlq.filters.map(({ match }) => match));

  async function attempt(signal: AbortSignal, read: (signal: AbortSignal) => Promise<Diagnosis>): Promise<ReadAttempt> {
    const since = recorder.count();
    try {
      // Use a shorter timeout than the check's, so that the reason can be reported.
      return { finding: await withDeadline(timeout * 0.9, signal, read) };
    } catch (error) {
      if (error instanceof UpstreamError) {
        const { message, reason, serviceError } = error;
        return { finding: fail(message, remedyOf(error)), reason, serviceError };
      }
      const reason = recorder.lastFailure(since);
      if (signal.aborted || reason === undefined) throw error;
      return { finding: fail(`no success before the time limit; last: ${reason}`, REMEDIES[reason]), reason };
    }
  }

  return {
    lists: {
      dlq: (signal: AbortSignal) =>
        attempt(signal, inTime => firstPage(reader.dlqPages({}, inTime), 'entries', reported.add)),
      events: (signal: AbortSignal) =>
        attempt(signal, async inTime => {
          const pages = reader.eventPages({ fromDate: clock.now() - DAY }, inTime);
          const found = await firstPage(pages, 'events of the last day');
          return { ...found, detail: `${recorder.lastPath()}: ${found.detail}` };
        }),
      flowControl: (signal: AbortSignal) =>
        attempt(signal, async inTime => {
          const keys: FlowControlEntry[] = [];
          const rejected = await reader.flowControl(inTime, entry => keys.push(entry));
          listedKey ??= keys[0]?.key;
          const incomplete = keys.filter(({ isIncomplete }) => isIncomplete).length;
          return pageFinding({ count: keys.length, rejected, incomplete }, 'keys');
        }),
    },
    /** Checks whether the rows on the first page of a filter match it. Read the unfiltered queue first. */
    async filter(match: DlqQuery, signal: AbortSignal): Promise<Diagnosis> {
      const proof = createFilterProof(match, reported);
      const { finding, reason } = await attempt(signal, async inTime =>
        firstPage(reader.dlqPages(match, inTime), 'entries', proof.add),
      );
      if (reason === 'refused' || reason === 'not_found') return { ...finding, todo: FILTER_REMEDY };
      const contradiction = proof.contradiction();
      if (contradiction) return fail(contradiction.message, FILTER_REMEDY);
      if (finding.status !== 'ok' || proof.isProven()) return finding;
      return warn(`${finding.detail}; rows do not report every field of match`, FILTER_REMEDY);
    },
    /** Reads a watched or listed flow-control key; undefined if there is none. */
    async key(signal: AbortSignal): Promise<ReadAttempt | undefined> {
      const [watched] = collect.flowControl.watch;
      const key = watched ?? listedKey;
      if (key === undefined) return undefined;
      const result = await attempt(signal, async inTime => {
        await reader.flowControlKey(key, inTime);
        return ok(paths.flowControlKey);
      });
      if (result.reason !== 'not_found' && result.reason !== 'refused') return result;
      const { detail } = result.finding;
      const todo = 'check collect.flowControl.watch, and paths.flowControlKey';
      const finding =
        watched === undefined ? ok(`${detail}; only collect.flowControl.watch needs it`) : warn(detail, todo);
      return { ...result, finding };
    },
    /** Returns the result for the token; undefined if the reads are inconclusive. */
    token(attempts: readonly ReadAttempt[]): Diagnosis | undefined {
      const place = placeOf(settings.token);
      const none = attempts.find(({ reason }) => reason === 'unauthorized');
      const todo = remedyOf({ reason: 'unauthorized', serviceError: none?.serviceError });
      const why = none?.serviceError === undefined ? '' : `: ${none.serviceError}`;
      if (client.isTokenRejected()) return fail(`the service rejects the token ${place}${why}`, todo);
      if (none) return fail(none.finding.detail, todo);
      if (client.isTokenKnown()) return ok(`the service accepts the token ${place}`);
      if (!attempts.some(({ reason }) => reason === 'forbidden')) return undefined;
      return fail(`the token ${place} has no read permission`, REMEDIES.forbidden);
    },
  };
}
