import { type AccountSettings, type ClientDeps, createAccountClient } from '../../agent/account-client.ts';
import { accountMayAct } from '../../auto-cancel/options.ts';
import type { Config } from '../../config/schema.ts';
import type { Log } from '../../kit/log.ts';
import { nameOf } from '../../kit/secret.ts';
import { proveEntries } from '../../lookup/proof.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import { createTracer } from '../../telemetry/tracing.ts';
import { type DlqQuery, FilterContradiction, isUnanswerable, type ListPage, type Reader } from '../../upstream/api.ts';
import { readClockDifference } from '../../upstream/connection.ts';
import { remedyOf, type UpstreamError } from '../../upstream/errors.ts';
import { addressesOf } from '../../upstream/options.ts';
import { checkConnection, checkDns, clockResult } from './connection.ts';
import { type Diagnosis, type DoctorDeps, fail, ok, type Probe, skip, TIME_LIMIT, warn } from './probe.ts';

export interface ProbeDeps extends DoctorDeps, Pick<ClientDeps, 'dispatchers' | 'secrets'> {
  readonly config: Config;
}

const DAY = 86_400_000;
const FILTER_REMEDY = 'check the match of the filter: docs/dead-letters.md#filters';
const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };

/** Returns the probes of the network path to the service. */
function pathProbes(settings: AccountSettings, { env, clock, dispatchers }: ProbeDeps): readonly Probe[] {
  const { proxy: setting } = settings.upstream;
  const dispatcher = dispatchers.for(settings.upstream);
  const proxy = URL.parse((setting && ('literal' in setting ? setting.literal.reveal() : env[setting.env])) ?? '');
  const via = proxy ? ` through the proxy ${proxy.host}` : '';
  const probesOf = (url: URL, dns: string, connection: string): readonly Probe[] => [
    // With a proxy, only the proxy's name is resolved here.
    { name: dns, run: () => checkDns((proxy ?? url).hostname) },
    { name: connection, needs: [dns], run: () => checkConnection(dispatcher, url, clock.now(), via) },
  ];
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
  return warn(`${detail}, ${counts}`, 'see docs/runbooks/DeliveryRowsRejected.md');
}

const firstPage = async (pages: AsyncIterator<ListPage<unknown>>, what: string) =>
  pageResult((await pages.next()).value, what);

const readDlq = (reader: Reader, signal: AbortSignal) => firstPage(reader.dlqPages({}, signal), 'entries');

async function readKeys(reader: Reader, signal: AbortSignal): Promise<Diagnosis> {
  const rows: FlowControlEntry[] = [];
  const rejected = await reader.flowControl(signal, row => rows.push(row));
  const incomplete = rows.filter(({ isIncomplete }) => isIncomplete).length;
  return pageResult({ rows, rejected, incomplete, isLast: true }, 'keys');
}

/** Opens a reader with a separate budget. */
function openReader(settings: AccountSettings, deps: ProbeDeps): Reader {
  // A request must fail before the time limit of its probe, so that the reason is reported.
  const timeout = Math.min(settings.upstream.timeout, (deps.timeout ?? TIME_LIMIT) * 0.8);
  const limited = { ...settings, upstream: { ...settings.upstream, timeout } };
  const clientDeps = { ...deps, requestSeconds: { observe() {} }, log: quiet, tracer: createTracer(false) };
  return createAccountClient(limited, {}, undefined, clientDeps).at('look');
}

/** Checks a token with which a list is read. A service that forbids the read accepts the token. */
async function checkToken(setting: AccountSettings['token'], reading: Promise<unknown>): Promise<Diagnosis> {
  const token = `the token in ${nameOf(setting, "the account's entry")}`;
  const error = await reading.then(
    () => undefined,
    (each: UpstreamError) => each,
  );
  if (!error || error.reason === 'forbidden') return ok(`the service accepts ${token}`);
  if (error.reason !== 'unauthorized') return skip('unknown: the first list could not be read');
  const why = error.serviceError === undefined ? '' : `: ${error.serviceError}`;
  return fail(`the service rejects ${token}${why}`, remedyOf(error));
}

/** Returns the probes of the token and of the lists. The read of the first enabled list shows whether the token is accepted. */
function listProbes({ token, collect }: AccountSettings, reader: Reader, now: () => number): readonly Probe[] {
  const readEvents = (_: Reader, signal: AbortSignal) =>
    firstPage(reader.eventPages({ fromDate: now() - DAY }, signal), 'events of the last day');
  const lists = [
    { name: 'dlq', section: 'dlq', read: readDlq },
    { name: 'events', section: 'events', read: readEvents },
    { name: 'flow control', section: 'flowControl', read: readKeys },
  ] as const;
  const needs = ['connection'];
  // The configuration enables at least one list.
  const first = lists.find(({ section }) => collect[section].enabled) ?? lists[0];
  let firstRead: Promise<Diagnosis> | undefined;
  const run = (signal: AbortSignal) => {
    firstRead = first.read(reader, signal);
    return checkToken(token, firstRead);
  };
  const probes = lists.map((list): Probe => {
    const { name, section } = list;
    const skipped = skip(`collect.${section}.enabled is false`);
    const read = (signal: AbortSignal) => (list === first && firstRead) || list.read(reader, signal);
    return { name, needs, run: collect[section].enabled ? read : () => skipped };
  });
  return [{ name: 'token', needs, run }, ...probes];
}

/** Returns the handler of errors that show that the service does not support a request. */
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
  const { enabled, watch } = collect.flowControl;
  const [key] = watch;
  if (!enabled || key === undefined) return skip('collect.flowControl watches no key');
  const onMissing = onRefusal(warn, 'check collect.flowControl.watch, and paths.flowControlKey');
  return reader.flowControlKey(key, signal).then(() => ok(paths.flowControlKey), onMissing);
}

/** Checks the action token by reading; nothing is cancelled. */
async function checkActionToken(settings: AccountSettings, deps: ProbeDeps, signal: AbortSignal): Promise<Diagnosis> {
  const { actionToken: token, name } = settings;
  if (!token || !accountMayAct(deps.config, name)) return skip('no rule may act, so the token is not loaded');
  const found = await checkToken(token, readDlq(openReader({ ...settings, token }, deps), signal));
  return found.status === 'ok' ? ok(`${found.detail}; only a cancel shows its permissions`) : found;
}

/** Returns the probes of one account, which use its budget. */
export function accountProbes(settings: AccountSettings, deps: ProbeDeps): readonly Probe[] {
  const { name: account, actionToken, collect } = settings;
  const reader = openReader(settings, deps);
  const filters = (collect.dlq.enabled ? collect.dlq.filters : []).map(({ name, match }): Probe => {
    const run = (signal: AbortSignal) => readFilter(reader, match, signal).catch(onRefusal(fail, FILTER_REMEDY));
    return { name: `filter ${name}`, needs: ['dlq'], run };
  });
  const [keyNeeds, actionNeeds] = [['token', 'regional connection'], ['connection']];
  const action = (signal: AbortSignal) => checkActionToken(settings, deps, signal);
  const probes: readonly Probe[] = [
    ...pathProbes(settings, deps),
    ...listProbes(settings, reader, deps.clock.now),
    ...filters,
    { name: 'flow control key', needs: keyNeeds, run: signal => checkKey(settings, reader, signal) },
    ...(actionToken ? [{ name: 'action token', needs: actionNeeds, run: action }] : []),
  ];
  return probes.map(probe => ({ account, ...probe }));
}
