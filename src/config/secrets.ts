import { accessSync, constants, readFileSync, realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { faultOfAddress } from '../alerts/options.ts';
import { faultOfReplicaUrl } from '../http/options.ts';
import { faultOfHeader } from '../kit/otlp-receiver.ts';
import { type Env, faultOfSecret, Secret, type SecretSetting, secret } from '../kit/secret.ts';
import { faultOfUrl, isUnsafe } from '../store/options.ts';
import { addressesOf, faultOfProxy } from '../upstream/options.ts';
import { accountMayAct } from './auto-cancel.ts';
import type { Tell } from './faults.ts';
import type { Config } from './schema.ts';

type Path = readonly PropertyKey[];
type Account = Config['accounts'][number];

const ELSEWHERE = '{ env: NAME } or { file: PATH } keep it out';
/** No token is longer; what is may be a device that never ends. */
const LONGEST_FILE = 65_536;

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/** What a file holds that can be a secret now; undefined when it holds none. */
function inFile(file: string): Secret | undefined {
  try {
    const isSmall = statSync(file).size <= LONGEST_FILE;
    const parsed = isSmall ? secret.safeParse(readFileSync(file, 'utf8')).data : undefined;
    return parsed && 'literal' in parsed ? parsed.literal : undefined;
  } catch {
    return undefined;
  }
}

function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return resolve(file);
  }
}

/** A secret that is there, or may come to be there: what is wrong with it now. */
function checkSecret(setting: SecretSetting, path: Path, what: string, env: Env, tell: Tell): void {
  const wrong = faultOfSecret(setting, env);
  if (wrong) tell.fault(path, wrong);
  if ('file' in setting && !isReadable(setting.file)) tell.warn(path, `${setting.file} can't be read now`);
  else if ('file' in setting && !inFile(setting.file)) {
    tell.warn(path, `${setting.file} holds no ${what} now: visible ASCII characters, without spaces`);
  }
  if ('literal' in setting) tell.warn(path, `the ${what} is written in this file; ${ELSEWHERE}`);
}

function checkAccount(config: Config, account: Account, index: number, env: Env, tell: Tell): void {
  const at = (...keys: string[]) => ['accounts', index, ...keys];
  const { token, actionToken, management } = account;
  checkSecret(token, at('token'), 'token', env, tell);
  if (accountMayAct(config, account.name)) {
    if (actionToken) checkSecret(actionToken, at('actionToken'), 'token', env, tell);
    else tell.warn(at('actionToken'), 'is not set: auto-cancel uses `token` to cancel');
  }
  if (!management) return;
  // The agent does not need it, and may run where it is not set.
  const noPassword = faultOfSecret(management.password, env);
  const path = at('management', 'password');
  if (noPassword) tell.warn(path, `${noPassword}: rotate-token will need it`);
  if ('literal' in management.password) tell.warn(path, `the password is written in this file; ${ELSEWHERE}`);
}

function checkProxies({ upstream, accounts }: Config, env: Env, tell: Tell): void {
  for (const [number, own] of [upstream, ...accounts.map(({ upstream }) => upstream)].entries()) {
    const path = number === 0 ? ['upstream'] : ['accounts', number - 1, 'upstream'];
    // What an account does not override is said once, where it stands.
    const differs = (key: 'proxy' | 'caFile') => number === 0 || own[key] !== upstream[key];
    if (own.proxy && differs('proxy')) {
      const wrong = faultOfProxy(own.proxy, env);
      if (wrong) tell.fault([...path, 'proxy'], wrong);
      if ('literal' in own.proxy && URL.parse(own.proxy.literal.reveal())?.password) {
        tell.warn([...path, 'proxy'], 'the proxy password is written in this file; { env: NAME } keeps it out');
      }
    }
    if (own.caFile !== null && differs('caFile') && !isReadable(own.caFile)) {
      tell.fault([...path, 'caFile'], `${own.caFile} can't be read`);
    }
  }
}

function checkStoreUrl({ store: { kind, url } }: Config, env: Env, tell: Tell): void {
  if (kind !== 'postgres' || url === null) return;
  const path = ['store', 'url'];
  checkSecret(url, path, 'URL with its password', env, tell);
  const text = 'env' in url ? env[url.env]?.trim() : 'file' in url ? inFile(url.file)?.reveal() : url.literal.reveal();
  const wrong = !('literal' in url) && text && faultOfUrl(text);
  if (wrong) tell.fault(path, `${'env' in url ? `the environment variable ${url.env}` : url.file} ${wrong}`);
  else if (text && isUnsafe(text)) {
    tell.warn(
      path,
      'leads to another host without TLS: others on the way may read what is stored; add sslmode=verify-full',
    );
  }
}

function checkReplicaUrl({ server: { replicaUrl } }: Config, env: Env, tell: Tell): void {
  if (replicaUrl === null || typeof replicaUrl === 'string') return;
  const { env: name } = replicaUrl;
  const text = env[name]?.trim();
  const wrong = text ? faultOfReplicaUrl(text) : 'is not set';
  if (wrong) tell.fault(['server', 'replicaUrl'], `the environment variable ${name} ${wrong}`);
}

/** Names of headers whose value is a credential. */
const KEY_HEADER = /authorization|cookie|key|token|secret|password/i;

/** Everything that is sent to an OTLP receiver, and where it is configured. */
const otlpReceivers = ({ tracing, push }: Config) => [
  { ...tracing, path: ['tracing'] },
  { ...push.metrics, path: ['push', 'metrics'] },
  { ...push.logs, path: ['push', 'logs'] },
];

type OtlpReceiver = ReturnType<typeof otlpReceivers>[number];

function checkOtlpHeaders({ enabled, headers, path }: OtlpReceiver, env: Env, tell: Tell): void {
  for (const [name, value] of Object.entries(headers)) {
    const at = [...path, 'headers', name];
    const wrong = enabled ? faultOfHeader(value, env) : undefined;
    if (wrong) tell.fault(at, wrong);
    if (value instanceof Secret && KEY_HEADER.test(name)) {
      tell.warn(at, 'the value is written in this file; { env: NAME } keeps it out');
    }
  }
}

/** What is wrong with the secrets as they are now. */
export function checkSecrets(config: Config, env: Env, tell: Tell): void {
  for (const [index, account] of config.accounts.entries()) checkAccount(config, account, index, env, tell);
  checkProxies(config, env, tell);
  checkStoreUrl(config, env, tell);
  checkReplicaUrl(config, env, tell);
  for (const each of otlpReceivers(config)) checkOtlpHeaders(each, env, tell);
  for (const [index, { webhook }] of config.alerts.notifiers.entries()) {
    if (!webhook) continue;
    const path = ['alerts', 'notifiers', index, 'webhook'];
    if (webhook.secret) checkSecret(webhook.secret, [...path, 'secret'], 'secret', env, tell);
    // The address of Slack is all that it takes to write there; others have a secret.
    checkAddress(webhook.url, [...path, 'url'], webhook.format === 'slack', env, tell);
  }
  if (config.heartbeat) checkAddress(config.heartbeat.url, ['heartbeat', 'url'], true, env, tell);
}

/** An address that is configured as secrets are. `isCredential`: it is one by itself. */
function checkAddress(setting: SecretSetting, path: Path, isCredential: boolean, env: Env, tell: Tell): void {
  if ('literal' in setting && !isCredential) return;
  checkSecret(setting, path, 'address', env, tell);
  const wrong = 'env' in setting && !faultOfSecret(setting, env) && faultOfAddress(env[setting.env]?.trim() ?? '');
  if (wrong && 'env' in setting) tell.fault(path, `the environment variable ${setting.env} ${wrong}`);
}

/** An address as the service sees it: two of the same are one. */
function normal(address: string): string {
  const url = new URL(address);
  return `${url.protocol}//${url.host.replace(/\.(?=:|$)/, '')}${url.pathname.replace(/\/+$/, '')}`;
}

/** What two settings of the same secret have in common. Not to be printed. */
function identities(setting: SecretSetting, env: Env | undefined): string[] {
  const value = (found: Secret | string | undefined) => {
    const text = (found instanceof Secret ? found.reveal() : found)?.trim();
    return text ? [`=${text}`] : [];
  };
  if ('literal' in setting) return value(setting.literal);
  if ('env' in setting) return [`env ${setting.env}`, ...(env ? value(env[setting.env]) : [])];
  return [`file ${realPath(setting.file)}`, ...(env ? value(inFile(setting.file)) : [])];
}

/**
 * Accounts that are one and the same under two names: everything is counted twice and costs twice, and where rules act each
 * cancels what the other has cancelled, within limits of its own.
 */
export function checkTwins(config: Config, env: Env | undefined, tell: Tell): void {
  const first = new Map<string, Account>();
  for (const [index, account] of config.accounts.entries()) {
    const addresses = [...new Set(Object.values(addressesOf(account)).map(normal))];
    const tokens = [account.token, account.actionToken ?? account.token].flatMap(token => identities(token, env));
    const keys = addresses.flatMap(address => tokens.map(token => `${address}\0${token}`));
    const twin = keys.map(key => first.get(key)).find(found => found !== undefined);
    for (const key of keys) if (!first.has(key)) first.set(key, account);
    if (!twin) continue;
    const path = ['accounts', index, 'token'];
    const same = `is the token of the account ${twin.name}, at the same address`;
    const acting = [twin, account].find(({ name }) => accountMayAct(config, name));
    if (acting) {
      tell.fault(
        path,
        `${same}: auto-cancel may cancel in ${acting.name}, so it would run twice, with twice the limits`,
      );
    } else tell.warn(path, `${same}: everything is read and counted twice`);
  }
}

/** What comes to this machine's own addresses leaves it on no wire. */
function isLoopback(hostname: string): boolean {
  if (/^(.+\.)?localhost\.?$/.test(hostname) || hostname === '[::1]') return true;
  return /^127(\.\d+){3}$/.test(hostname);
}

/** Whether what is sent to an address can be read on its way. */
function isPlain(address: string): boolean {
  const url = URL.parse(address);
  return url?.protocol === 'http:' && !isLoopback(url.hostname);
}

const literalOf = (setting: SecretSetting) => ('literal' in setting ? setting.literal.reveal() : undefined);

/** Warns of addresses to which secrets go in clear. */
export function checkPlainHttp(config: Config, tell: Tell): void {
  const { accounts, alerts, heartbeat } = config;
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
    [['heartbeat', 'url'], heartbeat && literalOf(heartbeat.url), 'its own address, a credential,'],
    ...otlpReceivers(config).map(({ enabled, headers, endpoint, path }): (typeof sent)[number] => [
      [...path, 'endpoint'],
      enabled && Object.keys(headers).length > 0 ? endpoint : undefined,
      `${path.join('.')}.headers`,
    ]),
  ];
  for (const [path, address, what] of sent) {
    if (isPlain(address ?? '')) tell.warn(path, `is http to another host: it sends ${what} unencrypted; use https`);
  }
}

/** Text of any kind may stand here. */
const FREE: readonly string[] = ['match', 'except', 'annotations', 'labels', 'include', 'exclude', 'watch', 'reason'];
const SECRET: readonly PropertyKey[] = [
  'token',
  'actionToken',
  'password',
  'secret',
  'proxy',
  'headers',
  'webhook',
  'heartbeat',
  'url',
];
/** `${NAME}`, also with a default, and `$NAME` alone. */
const VARIABLE = /\$\{([A-Za-z_]\w*)[^}]*\}|^\$([A-Z_][A-Z0-9_]*)$/;

/** Where text looks as if a variable of the environment was to stand for it: that is never so. */
export function expansions(value: unknown, path: Path = []): { readonly path: Path; readonly message: string }[] {
  if (typeof value === 'string') {
    const [, braced, bare] = VARIABLE.exec(value) ?? [];
    const name = braced ?? bare;
    if (name === undefined) return [];
    const instead = path.some(key => SECRET.includes(key)) ? `write { env: ${name} }` : 'write the value itself';
    return [{ path, message: `variables are not expanded here; ${instead}` }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    FREE.includes(key) ? [] : expansions(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}
