import { askedSpan } from '../auto-cancel/options.ts';
import { enabledRounds } from '../collectors/index.ts';
import { isSamePort, parseListen } from '../http/options.ts';
import { formatDuration } from '../kit/duration.ts';
import { mostForReading } from '../upstream/options.ts';
import type { Tell } from './faults.ts';
import type { Config } from './schema.ts';

type Path = readonly PropertyKey[];
type Account = Config['accounts'][number];
type Objectives = Config['objectives'];
type Rule = Config['autoCancel']['rules'][number];

/** Data does not change faster, and no service accepts more requests. */
const SHORTEST_INTERVAL = 10;
/** What asks more often is likely a mistake. */
const USUAL_INTERVAL = 1000;

function checkInterval(ms: number, path: Path, tell: Tell): void {
  if (ms < SHORTEST_INTERVAL) tell.fault(path, `must be at least ${formatDuration(SHORTEST_INTERVAL)}`);
  else if (ms < USUAL_INTERVAL) tell.warn(path, `is ${formatDuration(ms)}: more than once a second`);
}

function checkTimeouts({ connectTimeout, timeout }: Config['upstream'], path: Path, tell: Tell): void {
  if (connectTimeout > timeout)
    tell.warn([...path, 'connectTimeout'], `is longer than timeout, ${formatDuration(timeout)}`);
}

function checkCollect(collect: Config['collect'], at: (...keys: PropertyKey[]) => Path, tell: Tell): void {
  const { dlq, events } = collect;
  // Keys that end in `every` are intervals, in any section.
  for (const [section, options] of Object.entries(collect)) {
    for (const [key, value] of Object.entries(options)) {
      if (/^every$|Every$/.test(key) && typeof value === 'number') checkInterval(value, at(section, key), tell);
    }
  }
  if (events.overlap > events.lateSweep) {
    const [overlap, lateSweep] = [formatDuration(events.overlap), formatDuration(events.lateSweep)];
    tell.fault(at('events', 'overlap'), `is ${overlap} but must be at most lateSweep, ${lateSweep}`);
  }
  if (collect.routes.length === 0) {
    const why = 'route, but there are no collect.routes: every route is __unmatched__';
    if (events.destination === 'route') tell.warn(at('events', 'destination'), `is ${why}`);
    if (dlq.breakdowns.includes('route')) tell.warn(at('dlq', 'breakdowns'), `names ${why}`);
  }
  const asked = new Map<string, string>();
  for (const [index, { name, match }] of dlq.filters.entries()) {
    const query = JSON.stringify(
      Object.entries(match)
        .map(([key, value]) => [key, String(value)])
        .sort(),
    );
    const same = asked.get(query);
    if (same !== undefined) {
      tell.warn(
        at('dlq', 'filters', index, 'match'),
        `equals that of the filter ${same}: the same entries are read and counted twice`,
      );
    } else asked.set(query, name);
  }
}

/** Whether all that a rule matches by this key is excepted by it. */
function isExcepted({ match, except }: Rule, key: keyof Rule['match']): boolean {
  const [wanted, left] = [match[key], except[key]];
  if (!wanted?.in || !left || wanted.prefix || wanted.matches) return false;
  return wanted.in.every(
    value =>
      left.in?.includes(value) || left.prefix?.some(start => value.startsWith(start)) || left.matches?.matches(value),
  );
}

/** A URL that ends inside the host or port. */
const OPEN_HOST = /^https?:\/\/[^/?#]+$/;

/** Warns of URL prefixes that also match other hosts. */
function checkPrefixes({ match }: Rule, path: Path, tell: Tell): void {
  for (const [key, way] of Object.entries(match)) {
    for (const [index, prefix] of (way?.prefix ?? []).entries()) {
      if (!OPEN_HOST.test(prefix)) continue;
      const other = /:\d+$/.test(prefix) ? `${prefix}0/` : `${prefix}.evil.example/`;
      tell.warn(
        [...path, 'match', key, 'prefix', index],
        `also matches ${other}; end the host with a slash: ${prefix}/`,
      );
    }
  }
}

function checkRule(rule: Rule, { accounts }: Config, now: number, path: Path, tell: Tell): void {
  if (rule.expires !== null && rule.expires <= now) {
    tell.warn(
      [...path, 'expires'],
      `is in the past: the rule only plans since ${new Date(rule.expires).toISOString()}`,
    );
  }
  checkPrefixes(rule, path, tell);
  for (const key of Object.keys(rule.match) as (keyof Rule['match'])[]) {
    if (isExcepted(rule, key))
      tell.fault(
        [...path, 'except', key],
        `excludes everything that match.${key} matches: the rule applies to nothing`,
      );
  }
  if (rule.limits.perRun === 0 || rule.limits.perHour === 0) {
    tell.warn([...path, 'limits'], 'contains a 0: the rule never cancels');
  }
  const own = accounts.filter(({ name }) => rule.accounts?.includes(name) ?? true);
  const { key, ms } = askedSpan(rule);
  const span = { path: [...path, 'stuckWhen', key], ms };
  for (const { name, retention } of own) {
    if (retention.dlq !== null && span.ms >= retention.dlq) {
      const kept = formatDuration(retention.dlq);
      tell.warn(
        span.path,
        `is ${formatDuration(span.ms)}, but the account ${name} keeps dead letters only for ${kept}: they expire first`,
      );
    }
    const { idleFor } = rule.stuckWhen;
    if (idleFor !== undefined && retention.events !== null && idleFor >= retention.events) {
      const kept = formatDuration(retention.events);
      tell.warn(
        [...path, 'stuckWhen', 'idleFor'],
        `is ${formatDuration(idleFor)}, but the account ${name} keeps events only for ${kept}: such a long silence is never known`,
      );
    }
  }
}

/** Warns of base URLs that end in the prefix that every path of their API starts with. */
function checkBaseUrls({ baseUrl, regionalBaseUrl, management }: Account, path: Path, tell: Tell): void {
  const urls = [
    [['baseUrl'], baseUrl, '/v2'],
    [['regionalBaseUrl'], regionalBaseUrl, '/v2'],
    [['management', 'baseUrl'], management?.baseUrl, '/svc'],
  ] as const;
  for (const [keys, url, prefix] of urls) {
    if (!url?.replace(/\/+$/, '').endsWith(prefix)) continue;
    tell.warn(
      [...path, ...keys],
      `ends in ${prefix}, which is added to it: requests go to ${prefix}${prefix}/…; leave it out here`,
    );
  }
}

const DAY = 86_400_000;

/** Time after its due time at which a message without an end is no longer tracked. */
const TRACKED = 14 * DAY;

function checkTarget({ onTimeWithin, window }: Objectives, at: (key: keyof Objectives) => Path, tell: Tell): void {
  if (onTimeWithin > window) {
    tell.fault(
      at('onTimeWithin'),
      `is ${formatDuration(onTimeWithin)} but must be at most window, ${formatDuration(window)}`,
    );
  } else if (onTimeWithin >= TRACKED) {
    tell.fault(
      at('onTimeWithin'),
      `is ${formatDuration(onTimeWithin)} but must be below ${formatDuration(TRACKED)}, after which a message without an end is no longer tracked`,
    );
  }
}

function checkObjectives({ objectives, accounts }: Config, tell: Tell): void {
  checkTarget(objectives, key => ['objectives', key], tell);
  for (const [index, account] of accounts.entries()) {
    const own = ['accounts', index, 'objectives'];
    // What an account does not override is said where it stands.
    const at = (key: keyof Objectives) => (tell.isGiven([...own, key]) ? [...own, key] : ['objectives', key]);
    if (tell.isGiven(own)) checkTarget(account.objectives, at, tell);
    const { dlqMaxAge } = account.objectives;
    const { dlq } = account.retention;
    if (dlq === null || dlqMaxAge < dlq) continue;
    tell.warn(
      tell.isGiven(at('dlqMaxAge')) ? at('dlqMaxAge') : ['accounts', index, 'retention', 'dlq'],
      `objectives.dlqMaxAge is ${formatDuration(dlqMaxAge)}, but the account ${account.name} keeps dead letters only for ${formatDuration(dlq)}: they expire first`,
    );
  }
}

/**
 * Requests a day that watching an account costs at least: those of rounds that find nothing new in lists of one page. That
 * includes the complete walks of the dead-letter queue and of each filter. What it really costs, only the service can tell.
 */
function leastRequestsPerDay({ collect }: Pick<Account, 'collect'>): number {
  return [...enabledRounds(collect).values()]
    .flatMap(rounds => Object.values(rounds))
    .reduce((sum, { every, requests }) => sum + (DAY / every) * requests, 0);
}

/** Returns the warning for a budget below the minimum cost; undefined if it is enough. */
function overBudget(account: Account): string | undefined {
  const { budget } = account;
  const most = Math.floor(Math.min(mostForReading(budget), (budget.requestsPerSecond * DAY) / 1000));
  const least = Math.ceil(leastRequestsPerDay(account));
  if (least <= most) return undefined;
  return `reading takes at least ${least} requests a day, even with no new data and one page per list, but the budget allows ${most} for reading: rounds will wait, and data will be older than configured`;
}

/** The budget, and what watching costs at least, against what the account's plan allows. */
function checkPlan({ name, budget, limits, ...account }: Account, path: Path, tell: Tell): void {
  const { requests_per_day: perDay, requests_per_second: perSecond } = limits;
  const least = Math.ceil(leastRequestsPerDay(account));
  if (perDay !== undefined && least > perDay) {
    const message = `is ${perDay}, but reading the account ${name} takes at least ${least} requests a day`;
    tell.warn([...path, 'limits', 'requestsPerDay'], message);
  }
  const compared = [
    ['requestsPerDay', perDay],
    ['requestsPerSecond', perSecond],
  ] as const;
  for (const [key, most] of compared) {
    if (most === undefined || budget[key] <= most) continue;
    const isGiven = tell.isGiven([...path, 'budget', key]);
    const message = `budget.${key} is ${budget[key]}${isGiven ? '' : ' by default'}, more than limits.${key}, ${most}`;
    tell.warn(
      [...path, isGiven ? 'budget' : 'limits', key],
      `${message}: reading alone may use up what the plan allows`,
    );
  }
}

/** Prometheus and what follows it show a sample for so long, milliseconds. */
const SHOWN_FOR = 300_000;

function checkPush({ push }: Config, tell: Tell): void {
  const { every } = push.metrics;
  checkInterval(every, ['push', 'metrics', 'every'], tell);
  if (every >= SHOWN_FOR) {
    const message = `is ${formatDuration(every)}: databases show a sample for ${formatDuration(SHOWN_FOR)}, and gaps after that`;
    tell.warn(['push', 'metrics', 'every'], message);
  }
  if (push.metrics.endpoint.replace(/\/+$/, '').endsWith('/v1/metrics')) {
    tell.warn(['push', 'metrics', 'endpoint'], 'ends in /v1/metrics, which is added to it: leave it out here');
  }
}

/** Checks valid values whose combination is probably a mistake. */
export function checkSettings(config: Config, now: number, tell: Tell): void {
  const { listen, probesListen, replicaUrl } = config.server;
  if (config.store.kind === 'postgres' && replicaUrl === null && parseListen(listen).port === 0) {
    tell.warn(
      ['server', 'listen'],
      'has port 0: other replicas and Prometheus need server.replicaUrl to reach this one',
    );
  }
  if (probesListen !== null && isSamePort(listen, probesListen)) {
    tell.fault(['server', 'probesListen'], `must be another port than server.listen, ${listen}`);
  }
  checkCollect(config.collect, (...keys) => ['collect', ...keys], tell);
  for (const [index, account] of config.accounts.entries()) {
    const own = ['accounts', index, 'collect'];
    // What an account does not override is said where it stands.
    const at = (...keys: PropertyKey[]) => (tell.isGiven([...own, ...keys]) ? [...own, ...keys] : ['collect', ...keys]);
    if (tell.isGiven(own)) checkCollect(account.collect, at, tell);
    const warning = overBudget(account);
    if (warning) tell.warn(['accounts', index, 'budget', 'requestsPerDay'], warning);
    checkPlan(account, ['accounts', index], tell);
    checkBaseUrls(account, ['accounts', index], tell);
    const upstream = ['accounts', index, 'upstream'];
    if (tell.isGiven(upstream)) checkTimeouts(account.upstream, upstream, tell);
  }
  checkObjectives(config, tell);
  const { upstream, staleness, alerts, autoCancel } = config;
  checkTimeouts(upstream, ['upstream'], tell);
  if (staleness.withdrawAfter < staleness.markAfter) {
    tell.warn(
      ['staleness', 'withdrawAfter'],
      `is less than markAfter, ${staleness.markAfter}, before which nothing is withdrawn`,
    );
  }
  checkPush(config, tell);
  checkInterval(alerts.evaluateEvery, ['alerts', 'evaluateEvery'], tell);
  if (config.heartbeat) checkInterval(config.heartbeat.every, ['heartbeat', 'every'], tell);
  for (const [index, rule] of autoCancel.rules.entries()) {
    checkRule(rule, config, now, ['autoCancel', 'rules', index], tell);
  }
}
