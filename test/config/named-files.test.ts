import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { filesWithSecrets, namedFiles } from '../../src/config/files.ts';
import { loadConfig, loadStoreSettings } from '../../src/config/load.ts';
import { readRuleCase } from '../../src/config/rule-cases.ts';
import { readWebConfig } from '../../src/config/web-config.ts';
import { newFolder } from '../support/folder.ts';
import { faultText } from './fault-text.ts';

const utf16 = (text: string) => Buffer.from(`\u{feff}${text}`, 'utf16le');
const ACCOUNT = 'accounts:\n  - { name: a, baseUrl: https://h.example, token: { env: T } }\n';

let folder: string;
beforeEach(() => {
  folder = newFolder();
});

function fileOf(content: string | Buffer, name = 'file'): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

/** Returns the errors of a configuration, without its folder; empty if it is valid. */
function faultsOf(content: string | Buffer): string {
  const file = fileOf(content, 'config.yaml');
  try {
    loadConfig(file, { T: 'x' });
    return '';
  } catch (error) {
    return (error as Error).message.replaceAll(`${folder}/`, '');
  }
}

const WITH_UMLAUT = `# café\n${ACCOUNT}log: { level: info }\n`;

describe('encodings', () => {
  it.each<[string, Buffer, string]>([
    ['UTF-16', utf16(ACCOUNT), '1:1: is UTF-16 or UTF-32: save it as UTF-8'],
    ['big-endian UTF-16', utf16(ACCOUNT).swap16(), '1:1: is UTF-16 or UTF-32: save it as UTF-8'],
    ['UTF-16 without mark', Buffer.from(ACCOUNT, 'utf16le'), '1:1: is UTF-16 or UTF-32: save it as UTF-8'],
    [
      'ISO 8859-1',
      Buffer.from(WITH_UMLAUT, 'latin1'),
      '1:6: has a character that is not UTF-8: save the file as UTF-8, not as ISO 8859-1 or Windows-1252',
    ],
    [
      'UTF-8 cut in a character',
      Buffer.from(`${ACCOUNT}# é`).subarray(0, -1),
      '3:3: has a character that is not UTF-8',
    ],
    [
      'CESU-8',
      Buffer.concat([
        Buffer.from(ACCOUNT),
        Buffer.from('# eda0bdedb880', 'hex'),
        Buffer.from([0x23, 0xed, 0xa0, 0xbd]),
      ]),
      '3:2: has a character',
    ],
    ['UTF-32', Buffer.from('0000feff00000061', 'hex'), '1:1: is UTF-16 or UTF-32'],
  ])('a configuration in %s is refused with its position', (_what, bytes, message) => {
    expect(faultsOf(bytes)).toMatch(new RegExp(`^config.yaml:${message}`));
  });

  it.each(['', '\u{feff}'])('a configuration in UTF-8 is accepted with %j before it', mark => {
    expect(faultsOf(mark + WITH_UMLAUT)).toBe('');
  });

  it('account files, web-config files, rule cases and store settings must be UTF-8', () => {
    const other = fileOf(Buffer.from('- name: é\n', 'latin1'), 'other.yaml');
    const message = `${other}:1:9: has a character that is not UTF-8: save the file as UTF-8, not as ISO 8859-1 or Windows-1252`;
    expect(faultsOf('accountFiles: [other.yaml]\n')).toBe(message.replace(`${folder}/`, ''));
    for (const read of [readWebConfig, readRuleCase, loadStoreSettings]) {
      expect(faultText(() => read(other))).toBe(message);
    }
  });

  it('an error about a secret file in another encoding contains its path, but not its content', () => {
    const token = fileOf(utf16('canary'), 'token');
    expect(faultsOf(ACCOUNT.replace('env: T', `file: ${token}`))).toBe(
      'config.yaml:2:51: accounts[0].token: token is UTF-16 or UTF-32: save it as UTF-8',
    );
    fileOf('\u{feff}canary\r\n', 'token');
    expect(faultsOf(ACCOUNT.replace('env: T', `file: ${token}`))).toBe('');
  });
});

describe('invisible characters', () => {
  it.each([
    ['log:\n\u{a0}\u{a0}level: info\n', '4:1', 'U+00A0'],
    ['log:\n  level:\u{a0}info\n', '4:9', 'U+00A0'],
    ['log: { level: info\u{a0}}\n', '3:19', 'U+00A0'],
    ['log:\n\u{3000}level: info\n', '4:1', 'U+3000'],
    ['log: { level: in\0fo }\n', '3:17', 'U+0000'],
    ['log:\n  level: info\u{200b}\n', '4:14', 'U+200B'],
    ['\u{feff}log: { level: info }\n', '3:1', 'U+FEFF'],
    ['log:\n  level: in\u{ad}fo # x\n', '4:12', 'U+00AD'],
    ['log:\n  level: info\u{2028}\n', '4:14', 'U+2028'],
  ])('%j after the accounts is refused at its place', (text, place, name) => {
    expect(faultsOf(ACCOUNT + text).split('\n')).toContain(
      `config.yaml:${place}: ${name} is not a space in YAML; replace it, or put the text in quotes`,
    );
  });

  it('invisible characters are accepted in quotes, blocks and comments, and zero-width joiners everywhere', () => {
    const labels = 'labels: { a: "x\u{a0}y", b: 👩‍👩‍👧, c: می‌خواهم }, ';
    expect(faultsOf(`# \u{a0}\n${ACCOUNT.replace('token', `${labels}token`)}`)).toBe('');
  });
});

describe('certificates', () => {
  const pem = (name: string) => readFileSync(join('test/support/certificates', name), 'utf8');
  const NO_PEM = 'must have certificates in PEM, which begin with -----BEGIN CERTIFICATE-----';
  const DER = Buffer.from(pem('authority.pem').replace(/-----.*-----/g, ''), 'base64');

  it.each<[string, string | Buffer, string]>([
    ['empty', '', NO_PEM],
    ['no PEM', 'hello\n', NO_PEM],
    ['DER', DER, NO_PEM],
    ['a private key', pem('client.key'), NO_PEM],
    ['damaged', pem('authority.pem').replace(/\n.{20}/, '\n'), NO_PEM],
    ['damaged at its end', pem('authority.pem') + pem('other-authority.pem').replace(/\n.{20}/, '\n'), NO_PEM],
  ])('upstream.caFile that is %s is refused, globally and for an account', (_what, content, message) => {
    const ca = fileOf(content, 'ca.pem');
    expect(faultsOf(`upstream: { caFile: ${ca} }\n${ACCOUNT}`)).toBe(
      `config.yaml:1:21: upstream.caFile: ca.pem ${message}`,
    );
    expect(faultsOf(ACCOUNT.replace('token', `upstream: { caFile: ${ca} }, token`))).toBe(
      `config.yaml:2:64: accounts[0].upstream.caFile: ca.pem ${message}`,
    );
  });

  it('upstream.caFile must not be a folder, and may contain text between certificates', () => {
    mkdirSync(join(folder, 'certs'));
    expect(faultsOf(`upstream: { caFile: ${folder}/certs }\n${ACCOUNT}`)).toBe(
      "config.yaml:1:21: upstream.caFile: certs can't be read: it is not a regular file",
    );
    const ca = fileOf(Buffer.from(`Autorité\n${pem('authority.pem')}# 2\n${pem('other-authority.pem')}`, 'latin1'));
    expect(faultsOf(`upstream: { caFile: ${ca} }\n${ACCOUNT}`)).toBe('');
  });

  it('secret files must not be folders', () => {
    mkdirSync(join(folder, 'token'));
    expect(faultsOf(ACCOUNT.replace('env: T', `file: ${folder}/token`))).toContain(
      "token can't be read: it is not a regular file",
    );
  });

  const storeFaults = (rest: string) =>
    faultsOf(`store: { kind: postgres, url: 'postgres://u:canary@h/d?${rest}' }\n${ACCOUNT}`);

  it('the files named in the store URL are read, and errors do not contain the URL', () => {
    const [key, cert] = [fileOf(pem('client.key'), 'client.key'), fileOf(pem('client.pem'), 'client.pem')];
    const full = 'sslmode=verify-full&';
    expect(storeFaults(`${full}sslrootcert=${cert}&sslcert=${cert}&sslkey=${key}`)).toBe('');
    expect(storeFaults(`${full}sslrootcert=${key}&sslcert=/nowhere&sslkey=${cert}`).split('\n')).toEqual(
      [
        `the file of sslrootcert ${NO_PEM}`,
        'the file of sslcert does not exist',
        'the file of sslkey must have a private key in PEM',
      ].map(message => `config.yaml:1:31: store.url: ${message}`),
    );
    expect(storeFaults(`${full}sslrootcert=${folder}`)).toContain(
      "the file of sslrootcert can't be read: it is not a regular file",
    );
  });

  it('sslrootcert=system is not read as a file, and requires sslmode=verify-full', () => {
    expect(storeFaults('sslmode=verify-full&sslrootcert=system')).toBe('');
    for (const rest of ['', 'sslmode=disable&', 'sslmode=verify-ca&']) {
      expect(storeFaults(`${rest}sslrootcert=system`)).toContain('needs sslmode=verify-full for sslrootcert=system');
    }
  });
});

describe('the list of named files', () => {
  const pem = (name: string) => readFileSync(join('test/support/certificates', name), 'utf8');

  it('namedFiles returns each file with its kind of content, and files named in the store URL only if it gets the environment', () => {
    const [ca, key, token] = [
      fileOf(pem('authority.pem'), 'ca.pem'),
      fileOf(pem('client.key'), 'client.key'),
      fileOf('canary', 'token'),
    ];
    const env = { PG: `postgres://u:canary@h/d?sslmode=verify-full&sslrootcert=${ca}&sslkey=${key}` };
    const text = `store: { kind: postgres, url: { env: PG } }\nupstream: { caFile: ${ca} }\n${ACCOUNT}`;
    const file = fileOf(text.replace('env: T', `file: ${token}`), 'config.yaml');
    const { config } = loadConfig(file, env);
    const list = (from?: typeof env) =>
      namedFiles(config, from).map(({ path, file, content, isWatched }) =>
        [path.join('.'), file, content, ...(isWatched ? ['watched'] : [])].join(' '),
      );
    const settings = [`accounts.0.token ${token} secret`, `upstream.caFile ${ca} certificates watched`];
    expect(list()).toEqual(settings);
    expect(list(env)).toEqual([...settings, `store.url ${ca} certificates`, `store.url ${key} private key`]);
    expect(filesWithSecrets(file, config, env)).toEqual([token, key]);
  });
});
