import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { healthUrl } from '../../src/cli/healthcheck.ts';
import { serverOptions } from '../../src/http/options.ts';
import { newFolder } from '../support/folder.ts';

/** Returns the health URL for a configuration whose folder contains these web-config files. */
function urlOf(text: string, files: Readonly<Record<string, string>> = {}): string {
  const folder = newFolder();
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const file = join(folder, 'config.yaml');
  writeFileSync(file, text.replaceAll('FOLDER', folder));
  return healthUrl(file);
}

describe('healthUrl', () => {
  it.each([
    ['accounts: []', 'http://127.0.0.1:10922/-/healthy'],
    ['server: { listen: 0.0.0.0:8080 }', 'http://127.0.0.1:8080/-/healthy'],
    ["server: { listen: '[::]:8080' }", 'http://[::1]:8080/-/healthy'],
    ['server: { listen: 10.1.2.3:80 }', 'http://10.1.2.3:80/-/healthy'],
    ["server: { listen: '[fe80::1]:9' }", 'http://[fe80::1]:9/-/healthy'],
    ['server: { listen: 0.0.0.0:8080, probesListen: 127.0.0.1:8081 }', 'http://127.0.0.1:8081/-/healthy'],
    ['server: { listen: 0.0.0.0:8080, probesListen: null }', 'http://127.0.0.1:8080/-/healthy'],
    ['', 'http://127.0.0.1:10922/-/healthy'],
  ])('the health URL for the configuration (%s) is %s', (text, url) => expect(urlOf(text)).toBe(url));

  it('the health URL has the same default port as the configuration', () => {
    const { port } = new URL(urlOf('accounts: []'));
    expect(serverOptions.parse({}).listen).toBe(`0.0.0.0:${port}`);
  });

  const WEB = { 'tls.yaml': 'tls_server_config: { cert_file: c, key_file: k }', 'users.yaml': 'basic_auth_users: {}' };
  it.each([
    ['FOLDER/tls.yaml', 'https://127.0.0.1:10922/-/healthy'],
    ['FOLDER/users.yaml', 'http://127.0.0.1:10922/-/healthy'],
  ])('the health URL uses TLS if the web-config file does: %s', (file, url) => {
    expect(urlOf(`server: { webConfigFile: ${file} }`, WEB)).toBe(url);
  });

  it('the health URL uses the port for probes, without TLS', () => {
    const text = 'server: { webConfigFile: FOLDER/tls.yaml, probesListen: 127.0.0.1:8081 }';
    expect(urlOf(text, WEB)).toBe('http://127.0.0.1:8081/-/healthy');
  });

  it('the health URL is read from the valid part of a broken file, because an agent may still be running', () => {
    expect(urlOf('server:\n  listen: 0.0.0.0:8080\naccounts: [')).toBe('http://127.0.0.1:8080/-/healthy');
    expect(urlOf('server: { listen: 8080 }')).toBe('http://127.0.0.1:10922/-/healthy');
  });

  it('the health URL cannot be read from an invalid address or a missing file', () => {
    expect(() => urlOf('server: { listen: here }')).toThrow('config.yaml: here is not host:port');
    expect(() => healthUrl('/nowhere/config.yaml')).toThrow('ENOENT');
  });
});
