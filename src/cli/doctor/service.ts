import type { Dispatcher } from 'undici';
import type { AccountSettings } from '../../agent/account-client.ts';
import { accountMayAct } from '../../auto-cancel/options.ts';
import type { Config } from '../../config/schema.ts';
import { addressesOf, type UpstreamOptions } from '../../upstream/options.ts';
import { type CheckLine, type Checklist, createChecklist, type Diagnosis, skip } from './checklist.ts';
import { checkClock, checkConnection, checkDns } from './connection.ts';
import { type CheckedList, findingAmong, openReads, type ReadAttempt, type ReadDeps } from './reads.ts';

export interface ServiceDeps extends ReadDeps {
  readonly config: Config;
  readonly signal: AbortSignal;
}

const LISTS: readonly (readonly [check: string, name: CheckedList])[] = [
  ['dlq', 'dlq'],
  ['events', 'events'],
  ['flow control', 'flowControl'],
];

function proxyOf({ proxy }: UpstreamOptions, env: ServiceDeps['env']): string | undefined {
  const text = proxy && ('literal' in proxy ? proxy.literal.reveal() : env[proxy.env]);
  return URL.parse(text ?? '')?.host;
}

async function checkWays(list: Checklist, settings: AccountSettings, deps: ServiceDeps, dispatcher: Dispatcher) {
  const { base, regional } = addressesOf(settings);
  const { now } = deps.clock;
  const proxy = proxyOf(settings.upstream, deps.env);
  const via = proxy === undefined ? '' : ` through the proxy ${proxy}`;
  async function way(url: URL, prefix: string): Promise<CheckLine> {
    // With a proxy, only the proxy's name is resolved here.
    const host = proxy === undefined ? url.hostname : new URL(`http://${proxy}`).hostname;
    const dns = await list.check(`${prefix}dns`, () => checkDns(host));
    return list.check(`${prefix}connection`, () => checkConnection({ dispatcher, now }, url, via), [dns]);
  }
  const [url, regionalUrl] = [new URL(base), new URL(regional)];
  const first = await way(url, '');
  await list.check('clock', signal => checkClock({ dispatcher, now }, url, signal), [first]);
  return { base: first, regional: regionalUrl.origin === url.origin ? first : await way(regionalUrl, 'regional ') };
}

async function checkLists(list: Checklist, settings: AccountSettings, deps: ServiceDeps, base: CheckLine) {
  const reads = openReads(settings, deps);
  const attempts = new Map<string, ReadAttempt>();
  const lists = createChecklist(deps, settings.name);
  for (const [check, name] of LISTS) {
    const run = async (signal: AbortSignal): Promise<Diagnosis> => {
      if (!settings.collect[name].enabled) return skip(`collect.${name}.enabled is false`);
      const found = await reads.lists[name](signal);
      attempts.set(check, found);
      return found.finding;
    };
    await lists.check(check, run, [base]);
  }
  const verdict = reads.token([...attempts.values()]) ?? skip('no read completed');
  const token = await list.check('token', () => verdict, [base]);
  for (const line of lists.lines) {
    const attempt = attempts.get(line.check);
    const isToken = token.status === 'fail' && attempt?.reason === 'unauthorized';
    const found = attempt ? findingAmong([...attempts.values()], attempt) : line;
    await list.check(line.check, () => (isToken ? skip('needs token') : found));
  }
  const dlq = list.lines.filter(({ check }) => check === 'dlq');
  for (const { name, match } of settings.collect.dlq.enabled ? settings.collect.dlq.filters : []) {
    await list.check(`filter ${name}`, signal => reads.filter(match, signal), dlq);
  }
  return { reads, token };
}

/** Checks the action token by reading; nothing is cancelled. */
async function actionToken(settings: AccountSettings, deps: ServiceDeps, signal: AbortSignal): Promise<Diagnosis> {
  const { actionToken: token, name } = settings;
  if (!token) return skip('not configured');
  if (!accountMayAct(deps.config, name)) return skip('no rule may act, so the token is not loaded');
  const reads = openReads({ ...settings, token }, deps);
  const found = await reads.lists.dlq(signal);
  const verdict = reads.token([found]);
  if (!verdict) return found.finding;
  return verdict.status === 'ok'
    ? { ...verdict, detail: `${verdict.detail}; only a cancel shows its permissions` }
    : verdict;
}

/** Checks the connection to the service and the reads of one account, within its budget. */
export async function checkService(settings: AccountSettings, deps: ServiceDeps): Promise<readonly CheckLine[]> {
  const list = createChecklist(deps, settings.name);
  const dispatcher = deps.dispatchers.for(settings.upstream);
  const ways = await checkWays(list, settings, deps, dispatcher);
  const { reads, token } = await checkLists(list, settings, deps, ways.base);
  const key = async (signal: AbortSignal) => {
    if (!settings.collect.flowControl.enabled) return skip('collect.flowControl.enabled is false');
    return (await reads.key(signal))?.finding ?? skip('the list has no key');
  };
  await list.check('flow control key', key, [token, ways.regional]);
  if (settings.actionToken)
    await list.check('action token', signal => actionToken(settings, deps, signal), [ways.base]);
  return list.lines;
}
