import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { formatError, parseConfig } from '../../src/config/load.ts';
import { readWebConfig } from '../../src/config/web-config.ts';
import { newFolder } from '../support/folder.ts';
import { faultText } from './fault-text.ts';

const CERTIFICATES = 'test/support/certificates';
const HASH = '$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG';
const pem = (name: string) => readFileSync(join(CERTIFICATES, name), 'utf8');

/** Parses a file with this content in a folder with certificates. */
function read(content: string) {
  const folder = newFolder();
  mkdirSync(join(folder, 'tls'));
  for (const name of ['server.pem', 'server.key', 'authority.pem']) writeFileSync(join(folder, 'tls', name), pem(name));
  const file = join(folder, 'web.yaml');
  writeFileSync(file, content);
  const { config, warnings } = readWebConfig(file);
  return { folder, config, warned: warnings.map(formatError).join('\n').replaceAll(file, 'web.yaml') };
}

describe('invalid web-config files', () => {
  it.each(globSync('test/config/bad-web/*.yaml').sort())('readWebConfig reports the errors of %s', path => {
    const message = faultText(() => readWebConfig(path)).replaceAll(path, basename(path));
    expect(message).not.toMatch(/canary|X0h1gDsPszWURQaxFh|PRIVATE/);
    expect(message).toMatchSnapshot();
  });

  it('readWebConfig reports a missing file, a folder, a device and a file that is too large', () => {
    expect(faultText(() => readWebConfig('nowhere.yaml'))).toBe('nowhere.yaml:1:1: does not exist');
    expect(faultText(() => readWebConfig('test'))).toBe("test:1:1: can't be read: it is not a regular file");
    const why = "can't be read: it is not a regular file";
    expect(faultText(() => readWebConfig('/dev/zero'))).toBe(`/dev/zero:1:1: ${why}`);
    const file = join(newFolder(), 'web.yaml');
    writeFileSync(file, '#'.repeat(2 ** 21));
    expect(faultText(() => readWebConfig(file))).toBe(`${file}:1:1: can't be read: it has more than 1048576 bytes`);
  });

  it('errors of a web-config file are reported as errors of the configuration that names it', () => {
    const file = 'test/config/bad-web/unsupported-sections.yaml';
    const text = `server: { webConfigFile: ${file} }\naccounts: [{ name: a, baseUrl: https://x.example, token: { env: T } }]`;
    expect(faultText(() => parseConfig(text, 'x.yaml', { T: 'x' }))).toMatch(
      new RegExp(`^${file}:1:1: http_server_config: unknown key; `),
    );
    const missing = text.replace(file, '/nowhere.yaml');
    expect(faultText(() => parseConfig(missing, 'x.yaml', { T: 'x' }))).toBe(
      'x.yaml:1:26: server.webConfigFile: /nowhere.yaml does not exist',
    );
    // Without an environment, neither secrets nor this file are read: they may be on another machine.
    expect(parseConfig(text, 'x.yaml').config.server.webConfigFile).toBe(file);
  });
});

describe('valid web-config files', () => {
  it('a web-config file may use every supported key', () => {
    const { folder, config, warned } = read(`
tls_server_config:
  cert_file: tls/server.pem
  key_file: tls/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: tls/authority.pem
  min_version: TLS13
basic_auth_users: { alice: ${HASH} }
`);
    const { key, ...tls } = config.tls ?? {};
    expect(tls).toEqual({
      cert: pem('server.pem'),
      minVersion: 'TLSv1.3',
      clientAuth: 'RequireAndVerifyClientCert',
      clientCa: pem('authority.pem'),
    });
    expect(key?.reveal()).toBe(pem('server.key'));
    expect(config.users.get('alice')?.reveal()).toBe(HASH);
    expect([...config.stamps.keys()]).toEqual(
      ['web.yaml', 'tls/server.pem', 'tls/server.key', 'tls/authority.pem'].map(name => join(folder, name)),
    );
    expect(warned).toBe('');
    for (const text of [JSON.stringify(config), inspect(config, { depth: 9 })]) {
      expect(text).not.toMatch(/X0h1gDsPszWURQaxFh|PRIVATE KEY/);
    }
  });

  it('readWebConfig warns about passwords without TLS', () => {
    expect(read(`basic_auth_users: { alice: ${HASH} }`).warned).toMatchInlineSnapshot(
      `"web.yaml:1:19: basic_auth_users: passwords are sent unencrypted without tls_server_config"`,
    );
  });
});
