import { actingRules, minimumSpan } from '../auto-cancel/options.ts';
import { enabledRounds, isOptional } from '../collectors/index.ts';
import { isSamePort } from '../http/options.ts';
import { DAY, formatDuration } from '../kit/duration.ts';
import { isLoopback } from '../kit/http-url.ts';
import { limitKey, maxForReading, PUBLIC_PLANS, PUBLIC_PLANS_AS_OF } from '../upstream/options.ts';
import { pausingNames } from './alerts.ts';
import { checkNames, type Path, type Reporter } from './errors.ts';
import { checkExcluded } from './excluded-families.ts';
import type { AccountSettings, Config } from './schema.ts';

type Rule = Config['autoCancel']['rules'][number];

type At = (...keys: PropertyKey[]) => Path;

/** Returns a function that locates a setting of an account: in its own section if set there, else in the global one. */
const inheritedAt =
  (section: 'collect' | 'objectives', index: number, report: Reporter): At =>
  (...keys) => {
    const own = ['accounts', index, section, ...keys];
    return report.isGiven(own) ? own : [section, ...keys];
  };

/** Minimum interval (ms). */
const MIN_INTERVAL = 10;

function checkInterval(ms: number, path: Path, report: Reporter): void {
  if (ms < MIN_INTERVAL) report.error(path, `must be at least ${formatDuration(MIN_INTERVAL)}`);
}

function checkCollect(collect: Config['collect'], at: At, report: Reporter): void {
  const { events } = collect;
  // In every section, keys that end in `every` are intervals.
  for (const [section, options] of Object.entries(collect)) {
    for (const [key, value] of Object.entries(options)) {
      if (/^every$|Every$/.test(key) && typeof value === 'number') checkInterval(value, at(section, key), report);
    }
  }
  if (events.overlap > events.lateSweep) {
    const [overlap, lateSweep] = [formatDuration(events.overlap), formatDuration(events.lateSweep)];
    report.error(at('events', 'overlap'), `is ${overlap} but must be at most lateSweep, ${lateSweep}`);
  }
  checkExcluded(collect, at('families', 'exclude'), report);
}

const URL_KEYS = ['url', 'workflowUrl', 'failureCallbackUrl'] as const;

/** Whether a URL of a message can begin with this text. */
const mayBeginUrl = (text: string) =>
  ['http://', 'https://'].some(scheme => scheme.startsWith(text) || text.toLowerCase().startsWith(scheme));

/** Warns of values that match no URL: in `except`, such a value would protect no callback. */
function checkUrls(rule: Rule, path: Path, report: Reporter): void {
  for (const part of ['match', 'except'] as const) {
    for (const key of URL_KEYS) {
      const way = rule[part][key];
      const values = [
        ...(way?.in ?? []).map((text, index) => ({ at: ['in', index], text })),
        ...(way?.prefix ?? []).map((text, index) => ({ at: ['prefix', index], text })),
      ];
      for (const { at, text } of values) {
        if (mayBeginUrl(text)) continue;
        report.warn([...path, part, key, ...at], 'matches no URL: URLs begin with http:// or https://');
      }
    }
  }
}

function checkRule(rule: Rule, { accounts }: Config, now: number, path: Path, report: Reporter): void {
  if (rule.expires !== null && rule.expires <= now) {
    report.warn(
      [...path, 'expires'],
      `is in the past: the rule has only planned cancels since ${new Date(rule.expires).toISOString()}`,
    );
  }
  checkUrls(rule, path, report);
  const own = accounts.filter(({ name }) => rule.accounts?.includes(name) ?? true);
  const { key, ms } = minimumSpan(rule);
  const span = { path: [...path, 'stuckWhen', key], ms };
  for (const { name, retention } of own) {
    if (retention.dlq !== null && span.ms >= retention.dlq) {
      const kept = formatDuration(retention.dlq);
      report.warn(
        span.path,
        `is ${formatDuration(span.ms)}, but the account ${name} keeps dead letters only for ${kept}: they expire first`,
      );
    }
    const { idleFor } = rule.stuckWhen;
    if (idleFor !== undefined && retention.events !== null && idleFor >= retention.events) {
      const kept = formatDuration(retention.events);
      report.warn(
        [...path, 'stuckWhen', 'idleFor'],
        `is ${formatDuration(idleFor)}, but the account ${name} keeps events only for ${kept}: idle times this long cannot be verified`,
      );
    }
  }
}

/** Warns of base URLs that already end in the path prefix of the API. */
function checkBaseUrls({ baseUrl, regionalBaseUrl, management }: AccountSettings, path: Path, report: Reporter): void {
  const urls = [
    [['baseUrl'], baseUrl, '/v2'],
    [['regionalBaseUrl'], regionalBaseUrl, '/v2'],
    [['management', 'baseUrl'], management?.baseUrl, '/svc'],
  ] as const;
  for (const [keys, url, prefix] of urls) {
    if (!url?.replace(/\/+$/, '').endsWith(prefix)) continue;
    report.warn(
      [...path, ...keys],
      `ends in ${prefix}, which the agent adds: requests go to ${prefix}${prefix}/…; remove ${prefix} here`,
    );
  }
}

/** Time for which an unfinished message is tracked after its due time (ms). */
const TRACKED = 14 * DAY;

function checkTarget({ onTimeWithin, window }: Config['objectives'], at: At, report: Reporter): void {
  if (onTimeWithin > window) {
    report.error(
      at('onTimeWithin'),
      `is ${formatDuration(onTimeWithin)} but must be at most window, ${formatDuration(window)}`,
    );
  } else if (onTimeWithin >= TRACKED) {
    report.error(
      at('onTimeWithin'),
      `is ${formatDuration(onTimeWithin)} but must be below ${formatDuration(TRACKED)}, after which an unfinished message is no longer tracked`,
    );
  }
}

/** Returns the number of requests per day without optional collectors if rounds find nothing new and each list has one page. */
function minRequestsPerDay({ collect }: Pick<AccountSettings, 'collect'>): number {
  return [...enabledRounds(collect)]
    .flatMap(([collector, rounds]) => (isOptional(collector) ? [] : Object.values(rounds)))
    .reduce((sum, { every, requests }) => sum + (DAY / every) * requests, 0);
}

/** Compares the budget with the minimum number of requests, and with the limits of the account's plan. */
function checkBudget({ name, budget, limits, ...account }: AccountSettings, path: Path, report: Reporter): void {
  const { requests_per_day: perDay, requests_per_second: perSecond } = limits;
  const least = Math.ceil(minRequestsPerDay(account));
  const allowed = Math.floor(Math.min(maxForReading(budget), (budget.requestsPerSecond * DAY) / 1000));
  if (least > allowed) {
    const message = `reading takes at least ${least} requests a day, even with no new data and one page per list, but the budget allows ${allowed} for reading: rounds will wait, and data will be older than configured`;
    report.warn([...path, 'budget', 'requestsPerDay'], message);
  }
  if (perDay !== undefined && least > perDay) {
    const message = `is ${perDay}, but reading the account ${name} takes at least ${least} requests a day`;
    report.warn([...path, 'limits', 'requestsPerDay'], message);
  }
  const compared = [
    ['requestsPerDay', perDay],
    ['requestsPerSecond', perSecond],
  ] as const;
  for (const [key, most] of compared) {
    if (most === undefined || budget[key] <= most) continue;
    const isGiven = report.isGiven([...path, 'budget', key]);
    const message = `budget.${key} is ${budget[key]}${isGiven ? '' : ' by default'}, more than limits.${key}, ${most}`;
    report.warn(
      [...path, isGiven ? 'budget' : 'limits', key],
      `${message}: reading alone may exhaust the limits of the plan`,
    );
  }
}

/** Compares an account with the published limits of the plan that it names. */
function checkPublicPlan({ plan, limits, retention, collect }: AccountSettings, path: Path, report: Reporter): void {
  if (plan === null) return;
  const published = PUBLIC_PLANS[plan];
  const differs = (key: readonly string[], given: number | string, value: number | string) =>
    report.warn([...path, ...key], `is ${given}, but the plan ${plan} had ${value} on ${PUBLIC_PLANS_AS_OF}`);
  for (const [limit, value] of Object.entries(published.limits)) {
    const given = limits[limit as keyof typeof limits];
    if (given !== undefined && given !== value) differs(['limits', limitKey(limit)], given, value);
  }
  for (const key of ['dlq', 'events'] as const) {
    const [given, value] = [retention[key], published.retention[key]];
    if (given !== null && given !== value) differs(['retention', key], formatDuration(given), formatDuration(value));
  }
  const perDay = published.limits.requests_per_day;
  const least = Math.ceil(minRequestsPerDay({ collect }));
  if (perDay === undefined || least <= perDay) return;
  report.warn(
    [...path, 'plan'],
    `is ${plan}, which had ${perDay} messages a day on ${PUBLIC_PLANS_AS_OF}, but reading takes at least ${least} calls a day: too many if the service counts calls as messages`,
  );
}

/** Reports settings that contradict each other, and warns of combinations that are probably mistakes. */
export function checkSettings(config: Config, now: number, report: Reporter): void {
  const { listen, public: isPublic, webConfigFile, probesListen } = config.server;
  if (!isPublic && webConfigFile === null && !isLoopback(new URL(`http://${listen}`).hostname)) {
    report.warn(
      ['server', 'listen'],
      `is ${listen}, without authentication: every host that reaches it can read ids and addresses; listen on 127.0.0.1, set webConfigFile, or set public: true`,
    );
  }
  if (probesListen !== null && isSamePort(listen, probesListen)) {
    report.error(['server', 'probesListen'], `must be another port than server.listen, ${listen}`);
  }
  // Errors in inherited values have the same place in every account, and are reported once.
  for (const [index, account] of config.accounts.entries()) {
    checkCollect(account.collect, inheritedAt('collect', index, report), report);
    checkTarget(account.objectives, inheritedAt('objectives', index, report), report);
    checkBudget(account, ['accounts', index], report);
    checkPublicPlan(account, ['accounts', index], report);
    checkBaseUrls(account, ['accounts', index], report);
  }
  const { alerts, autoCancel } = config;
  checkInterval(alerts.evaluateEvery, ['alerts', 'evaluateEvery'], report);
  if (config.heartbeat) checkInterval(config.heartbeat.every, ['heartbeat', 'every'], report);
  for (const [index, rule] of autoCancel.rules.entries()) {
    checkRule(rule, config, now, ['autoCancel', 'rules', index], report);
  }
}

/** Checks auto-cancel rules against the rest of the configuration. */
export function checkAutoCancel({ autoCancel, store, accounts, alerts }: Config, report: Reporter): void {
  if (autoCancel.mode === 'off' && autoCancel.rules.length > 0) {
    report.warn(['autoCancel', 'mode'], 'is off: no rule is evaluated');
  }
  const accountNames = accounts.map(({ name }) => name);
  const notifierNames = alerts.notifiers.map(({ name }) => name);
  checkNames('alert', autoCancel.pauseWhileAlerts, pausingNames(alerts), ['autoCancel', 'pauseWhileAlerts'], report);
  for (const [index, rule] of autoCancel.rules.entries()) {
    const path = ['autoCancel', 'rules', index];
    checkNames('account', rule.accounts ?? [], accountNames, [...path, 'accounts'], report);
    checkNames('notifier', rule.notify, notifierNames, [...path, 'notify'], report);
    const own = accounts.filter(({ name }) => rule.accounts?.includes(name) ?? true);
    const without = (collector: 'dlq' | 'events') => own.find(({ collect }) => !collect[collector].enabled)?.name;
    const withoutDlq = without('dlq');
    if (withoutDlq !== undefined) {
      const message = `needs collect.dlq, which is not enabled for the account ${withoutDlq}`;
      report.error(rule.accounts === null ? path : [...path, 'accounts'], message);
    }
    const withoutEvents = rule.stuckWhen.idleFor === undefined ? undefined : without('events');
    if (withoutEvents !== undefined) {
      const message = `needs collect.events, which is not enabled for the account ${withoutEvents}`;
      report.error([...path, 'stuckWhen', 'idleFor'], message);
    }
    if (store.kind === 'memory' && own.some(({ name }) => actingRules(autoCancel, name).includes(rule))) {
      const message = 'needs store.kind: sqlite or postgres, because the journal of cancels must survive a restart';
      report.error([...path, 'mode'], message);
    }
  }
}
