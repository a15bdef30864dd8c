import type { Dispatcher } from 'undici';
import { type ClientDeps, openQuietReader } from '../../agent/account-client.ts';
import type { AccountSettings } from '../../config/schema.ts';
import { MAX_CLOCK_SKEW, unlessAborted, withDeadline } from '../../kit/clock.ts';
import { DAY } from '../../kit/duration.ts';
import { errorCode } from '../../kit/error-code.ts';
import { nameOf } from '../../kit/secret.ts';
import { KEY_LIST, type List, QUEUE_LIST, runList, SCHEDULE_LIST } from '../../lookup/lists.ts';
import { proveEntries } from '../../lookup/proof.ts';
import { StoreError } from '../../store/errors.ts';
import { type DlqQuery, FilterContradiction, isUnanswerable, type ListPage, type Reader } from '../../upstream/api.ts';
import { openConnection, readClockDifference, resolveHost } from '../../upstream/connection.ts';
import { isMissingPath, remedyOf, UpstreamError } from '../../upstream/errors.ts';
import { addressesOf } from '../../upstream/options.ts';

export interface Diagnosis {
  /** `warn`: works but should be changed. `skip`: does not apply, or a required probe failed. */
  readonly status: 'ok' | 'warn' | 'fail' | 'skip';
  readonly detail: string;
  readonly todo?: string;
}

export interface Probe {
  readonly account?: string;
  readonly name: string;
  /** Names of earlier probes. If one of them failed or was skipped, this probe is skipped. */
  readonly needs?: readonly string[];
  /** If it rejects, the runner reports the error. */
  run(signal: AbortSignal): Promise<Diagnosis> | Diagnosis | readonly Diagnosis[];
}

export type CheckLine = Diagnosis & Pick<Probe, 'account'> & { readonly check: string };

export interface DoctorDeps extends Pick<ClientDeps, 'env' | 'clock' | 'random'> {
  readonly signal: AbortSignal;
  /** Maximum duration of one probe (ms). Default: `TIME_LIMIT`. */
  readonly timeout?: number | undefined;
}

export const TIME_LIMIT = 10_000;

export const ok = (detail: string): Diagnosis => ({ status: 'ok', detail });
export const warn = (detail: string, todo: string): Diagnosis => ({ status: 'warn', detail, todo });
export const fail = (detail: string, todo: string): Diagnosis => ({ status: 'fail', detail, todo });
export const skip = (detail: string): Diagnosis => ({ status: 'skip', detail });

/** Converts an error to a result without secrets. A rejected token is reported once, by the probe of the token. */
function toDiagnosis(error: unknown): Diagnosis {
  const { name, message } = error as Error;
  if (error instanceof StoreError) return fail(message.replace(`: ${error.remedy}`, ''), error.remedy);
  if (error instanceof UpstreamError) {
    return error.reason === 'unauthorized' ? skip('needs token') : fail(message, remedyOf(error));
  }
  if (name === 'TimeoutError') return fail(message, 'check the network path: route, firewall, proxy');
  return fail(`the check itself failed: ${errorCode(error)}`, 'report this line');
}

/** Runs probes sequentially. Returns one or more lines per probe. Rejects only with the signal's reason. */
export async function runProbes(
  probes: readonly Probe[],
  { signal, timeout = TIME_LIMIT }: DoctorDeps,
): Promise<readonly CheckLine[]> {
  const lines: CheckLine[] = [];
  for (const { name: check, needs = [], run, ...account } of probes) {
    const missing = lines.find(line => needs.includes(line.check) && /fail|skip/.test(line.status));
    // Name the probe that failed first: without a connection, the token is not the problem.
    const root = missing?.detail.startsWith('needs ') ? missing.detail : `needs ${missing?.check}`;
    const work = async (deadline: AbortSignal) => (missing ? skip(root) : run(deadline));
    const limited = withDeadline(timeout, signal, deadline => unlessAborted(work(deadline), deadline));
    const found = [await limited.catch(toDiagnosis)].flat();
    signal.throwIfAborted();
    lines.push(...found.map(each => ({ ...account, check, ...each })));
  }
  return lines;
}

type ProbeDeps = DoctorDeps & Pick<ClientDeps, 'dispatchers' | 'secrets'>;

/** A certificate should be renewed this number of days before its expiry. */
const RENEW_DAYS = 14;
/** Clock skew (ms) above which TLS may fail. */
const CLOCK_FAILS = 60_000;
/** Time limit of a read (ms). It is shorter than a probe's, so that the reason of a failure is reported. */
const readLimit = ({ timeout = TIME_LIMIT }: DoctorDeps) => timeout * 0.9;
const FILTER_REMEDY = 'check the match of the filter: docs/collectors.md#filters';

/** Opens a TCP or TLS connection without sending a request. `via`: text that names the proxy in the result. */
export async function checkConnection(dispatcher: Dispatcher, url: URL, now: number, via = ''): Promise<Diagnosis> {
  const where = `${url.protocol}//${url.host}${via}`;
  const tls = await openConnection(dispatcher, url, where);
  if (!tls) return ok(where);
  const until = new Date(tls.certificateUntil).toISOString().slice(0, 10);
  const detail = `${where}, ${tls.protocol}, certificate until ${until}`;
  const days = Math.floor((tls.certificateUntil - now) / DAY);
  return days < RENEW_DAYS ? warn(`${detail}: ${days} days`, 'renew the certificate') : ok(detail);
}

/** `difference`: the service's clock minus this machine's (ms). */
function clockResult(difference: number | undefined): Diagnosis {
  const todo = 'synchronize the clock of this machine (NTP): with a skew above 5 s, auto-cancel is suspended';
  if (difference === undefined) return warn('the service sends no readable Date', todo);
  if (difference === 0) return ok("agrees with the service's");
  const skew = Math.abs(difference);
  const detail = `${(skew / 1000).toFixed(1)} s ${difference < 0 ? 'ahead of' : 'behind'} the service's`;
  if (skew <= MAX_CLOCK_SKEW) return ok(detail);
  return skew > CLOCK_FAILS ? fail(detail, todo) : warn(detail, todo);
}

function pathProbes(settings: AccountSettings, { env, clock, dispatchers }: ProbeDeps): readonly Probe[] {
  const { proxy: setting } = settings.upstream;
  const dispatcher = dispatchers.for(settings.upstream);
  const proxy = URL.parse((setting && ('literal' in setting ? setting.literal.reveal() : env[setting.env])) ?? '');
  const via = proxy ? ` through the proxy ${proxy.host}` : '';
  function probesOf(url: URL, dns: string, connection: string): readonly Probe[] {
    // With a proxy, only the proxy's name is resolved here.
    const { hostname } = proxy ?? url;
    return [
      { name: dns, run: async () => ok(`${hostname} is ${(await resolveHost(hostname)).join(', ')}`) },
      { name: connection, needs: [dns], run: () => checkConnection(dispatcher, url, clock.now(), via) },
    ];
  }
  const addresses = addressesOf(settings);
  const [base, regional] = [new URL(addresses.base), new URL(addresses.regional)];
  const run = async (signal: AbortSignal) =>
    clockResult(await readClockDifference(dispatcher, base, clock.now, signal));
  return [
    ...probesOf(base, 'dns', 'connection'),
    { name: 'clock', needs: ['connection'], run },
    ...(regional.origin === base.origin ? [] : probesOf(regional, 'regional dns', 'regional connection')),
  ];
}

function pageResult({ rows, rejected, incomplete, isLast }: ListPage<unknown>, what: string): Diagnosis {
  const detail = `${rows.length} ${what}${isLast ? '' : ' on the first page'}`;
  if (rejected + incomplete === 0) return ok(detail);
  const counts = `${rejected} unreadable rows, ${incomplete} rows with unreadable values`;
  return warn(`${detail}, ${counts}`, 'see docs/runbooks/DeliveryDataIncomplete.md');
}

const firstPage = async (pages: AsyncIterator<ListPage<unknown>>, what: string) =>
  pageResult((await pages.next()).value, what);

const readDlq = (reader: Reader, signal: AbortSignal) => firstPage(reader.dlqPages({}, signal), 'entries');

const readList =
  <Row>(list: List<Row>, what: string) =>
  (reader: Reader, signal: AbortSignal) =>
    firstPage(list.pages(reader, signal), what);

interface ListRead {
  readonly name: string;
  readonly section: 'dlq' | 'events' | 'flowControl' | 'schedules' | 'queues' | 'runs';
  read(reader: Reader, signal: AbortSignal): Promise<Diagnosis>;
}

/** Checks a token by reading a list with it. A forbidden read, too, shows that the service accepts the token. */
async function checkToken(setting: AccountSettings['token'], reading: Promise<unknown>): Promise<Diagnosis> {
  const token = `the token in ${nameOf(setting, "the account's entry")}`;
  const [read] = await Promise.allSettled([reading]);
  const error: UpstreamError | undefined = read.status === 'rejected' ? read.reason : undefined;
  if (!error || error.reason === 'forbidden') return ok(`the service accepts ${token}`);
  if (error.reason !== 'unauthorized') return skip('unknown: the first list could not be read');
  const why = error.serviceError === undefined ? '' : `: ${error.serviceError}`;
  return fail(`the service rejects ${token}${why}`, remedyOf(error));
}

/** Returns the probes of the token and of the lists. The read of the first enabled list shows whether the token is accepted. */
function listProbes({ token, collect }: AccountSettings, reader: Reader, deps: ProbeDeps): readonly Probe[] {
  const readEvents = (_: Reader, signal: AbortSignal) =>
    firstPage(reader.eventPages({ fromDate: deps.clock.now() - DAY }, signal), 'events of the last day');
  const lists: readonly ListRead[] = [
    { name: 'dlq', section: 'dlq', read: readDlq },
    { name: 'events', section: 'events', read: readEvents },
    { name: 'flow control', section: 'flowControl', read: readList(KEY_LIST, 'keys') },
  ];
  const optional: readonly ListRead[] = [
    { name: 'schedules', section: 'schedules', read: readList(SCHEDULE_LIST, 'schedules') },
    { name: 'queues', section: 'queues', read: readList(QUEUE_LIST, 'queues') },
    { name: 'workflow runs', section: 'runs', read: readList(runList({}), 'runs') },
  ];
  // The configuration enables at least one list.
  const first = lists.find(({ section }) => collect[section].enabled) ?? (lists[0] as ListRead);
  let firstRead: Promise<Diagnosis> | undefined;
  const readFirst = (signal: AbortSignal) =>
    (firstRead ??= withDeadline(readLimit(deps), signal, deadline => first.read(reader, deadline)));
  const needs = ['connection'];
  const probes = lists.map((list): Probe => {
    const skipped = skip(`collect.${list.section}.enabled is false`);
    const read = (signal: AbortSignal) => (list === first ? readFirst(signal) : list.read(reader, signal));
    return { name: list.name, needs, run: collect[list.section].enabled ? read : () => skipped };
  });
  const optionalProbes = optional.map(({ name, section, read }): Probe => {
    const skipped = skip(`collect.${section}.enabled is false`);
    // First read another list: after a success, a 404 shows that the service lacks this list.
    const run = async (signal: AbortSignal) => {
      await readFirst(signal);
      return read(reader, signal).catch(error => {
        if (isMissingPath(error)) return skip('the service has no such list');
        throw error;
      });
    };
    return { name, needs: ['token'], run: collect[section].enabled ? run : () => skipped };
  });
  return [{ name: 'token', needs, run: signal => checkToken(token, readFirst(signal)) }, ...probes, ...optionalProbes];
}

/** Returns an error handler, which reports an unsupported request and rethrows any other error. */
const onRefusal = (failOrWarn: typeof fail, todo: string) => (error: Error) => {
  if (error instanceof FilterContradiction || isUnanswerable(error)) return failOrWarn(error.message, todo);
  throw error;
};

/** Checks whether the rows on the first page of a filter match it. */
async function readFilter(reader: Reader, match: DlqQuery, signal: AbortSignal): Promise<Diagnosis> {
  const proof = proveEntries(match);
  const { value: page } = await reader.dlqPages(match, signal).next();
  proof.add(page);
  const found = pageResult(page, 'entries');
  if (found.status !== 'ok' || proof.isProven()) return found;
  return warn(`${found.detail}; rows do not report every field of match`, FILTER_REMEDY);
}

function checkKey({ collect, paths }: AccountSettings, reader: Reader, signal: AbortSignal) {
  const [key] = collect.flowControl.enabled ? collect.flowControl.watch : [];
  if (key === undefined) return skip('collect.flowControl watches no key');
  const onMissing = onRefusal(warn, 'check collect.flowControl.watch, and paths.flowControlKey');
  return reader.flowControlKey(key, signal).then(() => ok(paths.flowControlKey), onMissing);
}

/** Reads the account's record. Its login differs from that of the lists. */
async function checkUsage(reader: Reader, signal: AbortSignal): Promise<Diagnosis> {
  try {
    const { plan = 'unknown', state = 'unknown', requestsToday = 'unknown' } = await reader.account(signal);
    return ok(`plan: ${plan}, state: ${state}, requests today: ${requestsToday}`);
  } catch (error) {
    if (error instanceof UpstreamError) return fail(error.message, 'check management, region and paths.account');
    throw error;
  }
}

/** Returns the probes of one account, which use its budget. `mayAct`: whether the agent loads the action token. */
export function accountProbes(settings: AccountSettings, mayAct: boolean, deps: ProbeDeps): readonly Probe[] {
  const { name: account, actionToken: token, collect, paths } = settings;
  const reader = openQuietReader(settings, deps, readLimit(deps) * 0.9);
  const filters = (collect.dlq.enabled ? collect.dlq.filters : []).map(({ name, match }): Probe => {
    const run = (signal: AbortSignal) => readFilter(reader, match, signal).catch(onRefusal(fail, FILTER_REMEDY));
    return { name: `filter ${name}`, needs: ['dlq'], run };
  });
  // Check the action token by reading, without a cancel.
  const checkAction = async (signal: AbortSignal) => {
    if (!token || !mayAct) return skip('no rule may act, so the token is not loaded');
    const actionReader = openQuietReader({ ...settings, token }, deps, readLimit(deps) * 0.9);
    const found = await checkToken(token, readDlq(actionReader, signal));
    return found.status === 'ok' ? ok(`${found.detail}; only a cancel shows its permissions`) : found;
  };
  const [keyNeeds, actionNeeds] = [['token', 'regional connection'], ['connection']];
  const probes: readonly Probe[] = [
    ...pathProbes(settings, deps),
    ...listProbes(settings, reader, deps),
    ...filters,
    { name: 'flow control key', needs: keyNeeds, run: signal => checkKey(settings, reader, signal) },
    ...(paths.account === null ? [] : [{ name: 'account', run: (signal: AbortSignal) => checkUsage(reader, signal) }]),
    ...(token ? [{ name: 'action token', needs: actionNeeds, run: checkAction }] : []),
  ];
  return probes.map(probe => ({ account, ...probe }));
}
