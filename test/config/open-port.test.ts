import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { formatError, parseConfig } from '../../src/config/load.ts';

const accounts = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'T' } }];

const openPorts = (config: object, env?: Record<string, string>) =>
  parseConfig(JSON.stringify(config), 'x.yaml', env).warnings.filter(({ path }) => path === 'server.listen');

it('a port without authentication causes a warning that names the three ways to end it', () => {
  const [warning] = openPorts({ server: { lifecycle: false }, accounts });
  expect(warning && formatError(warning)).toBe(
    'x.yaml:1:11: server.listen: is 0.0.0.0:10922, without authentication: every host that reaches it can read ids and addresses; listen on 127.0.0.1, set webConfigFile, or set public: true',
  );
});

it.each(['0.0.0.0:0', '[::]:10922', '10.0.0.1:80', 'agent.example:80', '127.example:80', '[::2]:80', '128.0.0.1:80'])(
  'the address %s causes the warning',
  listen => expect(openPorts({ server: { listen }, accounts })).toHaveLength(1),
);

it.each(['127.0.0.1:10922', '127.1.2.3:0', 'localhost:80', 'LOCALHOST:80', '[::1]:10922', '[0:0::1]:80'])(
  'the loopback address %s causes no warning',
  listen => expect(openPorts({ server: { listen }, accounts })).toEqual([]),
);

it('server.public and webConfigFile end the warning, and public: false does not', () => {
  expect(openPorts({ server: { public: true }, accounts })).toEqual([]);
  expect(openPorts({ server: { public: false }, accounts })).toHaveLength(1);
  expect(openPorts({ server: { webConfigFile: 'web.yaml' }, accounts })).toEqual([]);
  expect(() => openPorts({ server: { public: 'yes' }, accounts })).toThrow('server.public: must be true or false');
});

it('a probesListen address that other hosts can reach causes no warning', () => {
  const server = { listen: '127.0.0.1:1', probesListen: '0.0.0.0:2' };
  expect(parseConfig(JSON.stringify({ server, accounts }), 'x.yaml', { T: 'x' }).warnings).toEqual([]);
});

/** Configurations in the shipped manifests. */
function configsIn(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  if (file.endsWith('agent/config.yaml')) return [text];
  return parseAllDocuments(text).flatMap(document => {
    const { data } = (document.toJS() ?? {}) as { data?: Record<string, string> };
    return Object.entries(data ?? {}).flatMap(([name, content]) => (name === 'config.yaml' ? [content] : []));
  });
}

it.each(
  globSync(['deploy/agent/config.yaml', 'deploy/kubernetes/overlays/*/*.yaml']).filter(
    file => configsIn(file).length > 0,
  ),
)('the shipped configuration in %s causes no warning', file => {
  for (const text of configsIn(file)) {
    expect(parseConfig(text, 'x.yaml').warnings.map(formatError)).toEqual([]);
    expect((parse(text) as { server: object }).server).toMatchObject({ public: true });
  }
});

it.each(['README.md', 'docs/getting-started.md', 'docs/install.md'])(
  'the first configuration in %s causes no warning about the port',
  file => {
    const [, text = ''] = /```yaml\n((?:#.*\n)?server:[\s\S]*?)```/.exec(readFileSync(file, 'utf8')) ?? [];
    expect(parseConfig(text, 'x.yaml').warnings.map(formatError)).toEqual([]);
  },
);
