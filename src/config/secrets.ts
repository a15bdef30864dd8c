import { accountMayAct } from '../auto-cancel/options.ts';
import { replicaUrlError } from '../http/options.ts';
import { isLoopback } from '../kit/http-url.ts';
import { identityOf } from '../kit/identity.ts';
import { MAX_SECRET_BYTES } from '../kit/regular-file.ts';
import { type Env, envError, headerError, Secret, type SecretSetting, secretError, toToken } from '../kit/secret.ts';
import { addressError, FORMATS } from '../notify/options.ts';
import { urlError, urlWarning } from '../store/options.ts';
import { isDisabled, isOtlp, otlpReceiver, tracesProtocol } from '../telemetry/options.ts';
import { addressesOf, proxyError } from '../upstream/options.ts';
import { notExpanded, type Path, type Reporter } from './errors.ts';
import type { AccountSettings, Config } from './schema.ts';
import { readText, tryRead } from './text-file.ts';

/** Returns the secret in a file, or the reason why it cannot be read. */
export function secretIn(file: string, what = 'secret'): { readonly content: Secret } | { readonly wrong: string } {
  const found = tryRead(() => readText(file, MAX_SECRET_BYTES));
  if ('wrong' in found) return found;
  const literal = toToken(found.content);
  return literal ? { content: literal } : { wrong: `has no ${what} (visible ASCII characters, without spaces)` };
}

export interface SecretUse {
  readonly path: Path;
  readonly setting: SecretSetting;
  readonly what: string;
  readonly isAddress?: boolean;
  /** Whether the agent can run without the secret, which only `rotate-token` needs. */
  readonly isOptional?: boolean;
}

function secretsOfAccount(config: Config, account: AccountSettings, index: number): SecretUse[] {
  const at = (...keys: string[]) => ['accounts', index, ...keys];
  const { name, token, actionToken, management } = account;
  const uses: SecretUse[] = [{ path: at('token'), setting: token, what: 'token' }];
  if (actionToken && accountMayAct(config, name)) {
    uses.push({ path: at('actionToken'), setting: actionToken, what: 'token' });
  }
  if (management) {
    const path = at('management', 'password');
    uses.push({ path, setting: management.password, what: 'password', isOptional: true });
  }
  return uses;
}

/**
 * Returns all configured secrets. A webhook's URL is a secret if it comes from `{ env }` or `{ file }`, or if URLs in its
 * format are secret.
 */
export function secretsOf(config: Config): SecretUse[] {
  const { accounts, alerts, heartbeat, store } = config;
  const uses = accounts.flatMap((account, index) => secretsOfAccount(config, account, index));
  if (store.url !== null) uses.push({ path: ['store', 'url'], setting: store.url, what: 'URL with its password' });
  for (const [index, { webhook }] of alerts.notifiers.entries()) {
    if (!webhook) continue;
    const path = ['alerts', 'notifiers', index, 'webhook'];
    if (webhook.secret) uses.push({ path: [...path, 'secret'], setting: webhook.secret, what: 'secret' });
    if (!FORMATS[webhook.format].hasSecretUrl && 'literal' in webhook.url) continue;
    uses.push({ path: [...path, 'url'], setting: webhook.url, what: 'address', isAddress: true });
  }
  if (heartbeat) uses.push({ path: ['heartbeat', 'url'], setting: heartbeat.url, what: 'address', isAddress: true });
  return uses;
}

/** Returns the values of a key of `upstream`, with their paths. Inherited ones appear only once. */
export function upstreamValues<K extends 'proxy' | 'caFile'>({ upstream, accounts }: Config, key: K) {
  const all = accounts.map((account, index) => ({
    path: ['accounts', index, 'upstream', key],
    value: account.upstream[key],
  }));
  return [{ path: ['upstream', key], value: upstream[key] }, ...all.filter(({ value }) => value !== upstream[key])];
}

/** Returns the headers of traces and webhooks, with their paths. */
function headersIn({ tracing, alerts }: Config) {
  const all = [
    { path: ['tracing'], headers: tracing.headers },
    ...alerts.notifiers.map(({ webhook }, index) => {
      return { path: ['alerts', 'notifiers', index, 'webhook'], headers: webhook?.headers ?? {} };
    }),
  ];
  return all.flatMap(({ path, headers }) =>
    Object.entries(headers).map(([name, value]) => ({ path: [...path, 'headers', name], name, value })),
  );
}

/** Returns secrets that are literals. `instead` explains alternatives. */
export function writtenSecrets(config: Config): { path: Path; what: string; instead: string }[] {
  const byEnv = '{ env: NAME } keeps it out';
  return [
    ...secretsOf(config)
      .filter(({ setting }) => 'literal' in setting)
      .map(({ path, what }) => ({ path, what, instead: '{ env: NAME } or { file: PATH } keep it out' })),
    ...upstreamValues(config, 'proxy').flatMap(({ path, value: proxy }) =>
      proxy && 'literal' in proxy && URL.parse(proxy.literal.reveal())?.password
        ? [{ path, what: 'proxy password', instead: byEnv }]
        : [],
    ),
    ...headersIn(config).flatMap(({ path, name, value }) =>
      value instanceof Secret && KEY_HEADER.test(name) ? [{ path, what: 'value', instead: byEnv }] : [],
    ),
  ];
}

/** End of the message about a missing optional secret. */
export const FOR_ROTATION = ': rotate-token will need it';

/** Returns why a secret in a variable cannot be read, or undefined. `checkFiles` checks secrets in files. */
function unreadable({ setting, isAddress }: SecretUse, env: Env): string | undefined {
  const wrong = secretError(setting, env);
  return isAddress && 'env' in setting ? (wrong ?? envError(setting.env, env, addressError)) : wrong;
}

function checkProxies(config: Config, env: Env, report: Reporter): void {
  for (const { path, value: proxy } of upstreamValues(config, 'proxy')) {
    const wrong = proxy && proxyError(proxy, env);
    if (wrong) report.error(path, wrong);
  }
}

/** Returns the text of the store's URL; undefined if it is not set or cannot be read. Never print it. */
export const storeUrl = ({ store: { url } }: Config, env: Env): string | undefined =>
  (url && currentValue(url, env).trim()) || undefined;

function checkStoreUrl(config: Config, env: Env, report: Reporter): void {
  const { url } = config.store;
  const text = storeUrl(config, env);
  if (url === null || text === undefined) return;
  const path = ['store', 'url'];
  const wrong = urlError(text);
  if (wrong && !('literal' in url)) {
    report.error(path, `${'env' in url ? `the environment variable ${url.env}` : url.file} ${wrong}`);
  }
  const warning = wrong ? undefined : urlWarning(text);
  if (warning) report.warn(path, warning);
}

function checkReplicaUrl({ server: { replicaUrl: setting } }: Config, env: Env, report: Reporter): void {
  if (setting === null || typeof setting === 'string') return;
  const wrong = envError(setting.env, env, replicaUrlError);
  if (wrong) report.error(['server', 'replicaUrl'], wrong);
}

/** Checks the variables of OpenTelemetry, which no setting names. */
function checkTracing({ tracing }: Config, env: Env, report: Reporter): void {
  if (!tracing.enabled || isDisabled(env) || !(tracing.messages || isOtlp(env))) return;
  try {
    tracesProtocol(env);
    otlpReceiver(tracing, env);
  } catch (error) {
    report.error(['tracing'], error instanceof Error ? error.message : String(error));
  }
}

/** Names of headers that contain credentials. */
const KEY_HEADER = /authorization|cookie|key|token|secret|password/i;

/** Checks the sources of secrets. Without `env`, reads neither variables nor files. */
export function checkSecrets(config: Config, env: Env | undefined, report: Reporter): void {
  for (const { path, what, instead } of writtenSecrets(config)) {
    report.warn(path, `the ${what} is written in this file; ${instead}`);
  }
  for (const [index, { name, actionToken }] of config.accounts.entries()) {
    if (actionToken || !accountMayAct(config, name)) continue;
    report.warn(['accounts', index, 'actionToken'], 'is not set: auto-cancel uses `token` to cancel');
  }
  if (!env) return;
  for (const use of secretsOf(config)) {
    const wrong = unreadable(use, env);
    if (wrong && use.isOptional) report.warn(use.path, `${wrong}${FOR_ROTATION}`);
    else if (wrong) report.error(use.path, wrong);
  }
  for (const { path, value } of headersIn(config)) {
    const wrong = path[0] === 'alerts' || config.tracing.enabled ? headerError(value, env) : undefined;
    if (wrong) report.error(path, wrong);
  }
  checkProxies(config, env, report);
  checkStoreUrl(config, env, report);
  checkReplicaUrl(config, env, report);
  checkTracing(config, env, report);
}

/** Normalizes an address for comparison. */
function normal(address: string): string {
  const url = new URL(address);
  return `${url.protocol}//${url.host.replace(/\.(?=:|$)/, '')}${url.pathname.replace(/\/+$/, '')}`;
}

/** Reports accounts that are configured twice: their messages would be counted twice, and their callbacks cancelled twice. */
export function checkTwins(config: Config, env: Env | undefined, report: Reporter): void {
  const first = new Map<string, AccountSettings>();
  for (const [index, account] of config.accounts.entries()) {
    const addresses = [...new Set(Object.values(addressesOf(account)).map(normal))];
    const tokens = [account.token, account.actionToken ?? account.token]
      .map(token => (env ? currentValue(token, env).trim() : identityOf(token)))
      .filter(token => token !== '');
    const keys = addresses.flatMap(address => tokens.map(token => `${address}\0${token}`));
    const twin = keys.map(key => first.get(key)).find(found => found !== undefined);
    for (const key of keys) if (!first.has(key)) first.set(key, account);
    if (!twin) continue;
    const path = ['accounts', index, 'token'];
    const same = `is the token of the account ${twin.name}, at the same address`;
    const acting = [twin, account].find(({ name }) => accountMayAct(config, name));
    if (acting) {
      report.error(
        path,
        `${same}: auto-cancel may cancel in ${acting.name}, so it would run twice, with twice the limits`,
      );
    } else report.warn(path, `${same}: everything is read and counted twice`);
  }
}

function isPlain(address: string): boolean {
  const url = URL.parse(address);
  return url?.protocol === 'http:' && !isLoopback(url.hostname);
}

const literalOf = (setting: SecretSetting) => ('literal' in setting ? setting.literal.reveal() : undefined);

/** Warns of unencrypted addresses that receive secrets. */
export function checkPlainHttp(config: Config, report: Reporter): void {
  const { accounts, alerts, heartbeat, tracing } = config;
  const sent: [path: PropertyKey[], address: string | null | undefined, what: string][] = [
    ...accounts.flatMap(({ baseUrl, regionalBaseUrl, region, management }, index): typeof sent => {
      const at = ['accounts', index];
      return [
        [[...at, 'baseUrl'], baseUrl, 'the token'],
        [[...at, 'regionalBaseUrl'], regionalBaseUrl?.replace('{region}', region ?? 'region'), 'the token'],
        [[...at, 'management', 'baseUrl'], management?.baseUrl, 'user name and password'],
      ];
    }),
    ...alerts.notifiers.flatMap(({ alertmanager, webhook }, index): typeof sent => {
      const at = ['alerts', 'notifiers', index];
      return [
        [[...at, 'webhook', 'url'], webhook && literalOf(webhook.url), 'every alert'],
        ...(alertmanager?.urls ?? []).map((url, number): (typeof sent)[number] => [
          [...at, 'alertmanager', 'urls', number],
          url.reveal(),
          'every alert',
        ]),
      ];
    }),
    [['heartbeat', 'url'], heartbeat && literalOf(heartbeat.url), 'the address, which is a credential,'],
    [
      ['tracing', 'endpoint'],
      tracing.enabled && Object.keys(tracing.headers).length > 0 ? tracing.endpoint : undefined,
      'tracing.headers',
    ],
  ];
  for (const [path, address, what] of sent) {
    if (isPlain(address ?? '')) report.warn(path, `is http to another host: it sends ${what} unencrypted; use https`);
  }
}

/** Keys with free text, which may contain `$`. */
const FREE_TEXT_KEYS: readonly string[] = [
  'match',
  'except',
  'annotations',
  'labels',
  'include',
  'exclude',
  'watch',
  'reason',
];
/** Matches `${NAME}`, also with a default, and a lone `$NAME`. */
const VARIABLE = /\$\{([A-Za-z_]\w*)[^}]*\}|^\$([A-Z_][A-Z0-9_]*)$/;

/** Returns an error for each reference to an environment variable, because such references are never expanded. */
export function expansions(value: unknown, path: Path = []): { readonly path: Path; readonly message: string }[] {
  if (typeof value === 'string') {
    const [, braced, bare] = VARIABLE.exec(value) ?? [];
    const name = braced ?? bare;
    return name === undefined ? [] : [{ path, message: notExpanded(name) }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    FREE_TEXT_KEYS.includes(key) ? [] : expansions(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

/** Reads the current secrets of an account and of the agent. */
export type SecretValues = ReturnType<typeof createSecretValues>;

/** Yields all secrets in a part of the configuration: literals and references. */
function* settingsIn(part: unknown): Generator<SecretSetting> {
  if (part instanceof Secret) yield { literal: part };
  else if (typeof part === 'object' && part !== null) {
    const [[key, value] = [], ...more] = Object.entries(part);
    const isReference = more.length === 0 && typeof value === 'string';
    if (isReference && key === 'env') yield { env: value };
    else if (isReference && key === 'file') yield { file: value };
    else for (const inner of Object.values(part)) yield* settingsIn(inner);
  }
}

function currentValue(setting: SecretSetting, env: Env): string {
  if ('literal' in setting) return setting.literal.reveal();
  if ('env' in setting) return env[setting.env] ?? '';
  const found = secretIn(setting.file);
  return 'content' in found ? found.content.reveal() : '';
}

export function createSecretValues(first: Config, env: Env) {
  let config = first;
  return {
    /** Returns the secrets of an account and of the agent. Reads files again each time, because a secret may be replaced. */
    of(name: string): readonly string[] {
      const { accounts, ...agent } = config;
      const account = accounts.find(each => each.name === name);
      return [...settingsIn(agent), ...settingsIn(account)].map(setting => currentValue(setting, env));
    },
    use(next: Config): void {
      config = next;
    },
  };
}
