import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { join } from 'node:path';
import type { SecureContextOptions } from 'node:tls';
import { hashSync } from 'bcryptjs';
import { readWebConfig } from '../../src/config/web-config.ts';
import type { ServerSettings } from '../../src/http/server.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { startHttpServer } from '../../src/status/server.ts';
import { type ServedChanges, servedWith } from '../status/empty-served.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { createTestLog } from '../support/silent.ts';

export const tlsWith = (more: object = {}) => ({
  tls_server_config: { cert_file: 'server.pem', key_file: 'server.key', ...more },
});
export const CLIENTS = tlsWith({ client_auth_type: 'RequireAndVerifyClientCert', client_ca_file: 'authority.pem' });
export const pem = (name: string) => readFileSync(join('test/support/certificates', name), 'utf8');
export const CA = { ca: pem('authority.pem') };
export const CLIENT = { ...CA, cert: pem('client.pem'), key: pem('client.key') };
export const STRANGER = { ...CA, cert: pem('stranger.pem'), key: pem('stranger.key') };
export const PASSWORD = 'password-canary';
export const USERS = { basic_auth_users: { alice: hashSync(PASSWORD, 4) } };
export const ALICE = { auth: `alice:${PASSWORD}` };

interface Ask {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly auth?: string;
  readonly body?: string;
  readonly signal?: AbortSignal;
  readonly tls?: SecureContextOptions;
}

/** Starts a server with the web-config file `web`; without one if it is `{}`. Tests can replace the files in its folder. */
export async function serve(web: object, overrides: ServedChanges = {}, settings: Partial<ServerSettings> = {}) {
  const folder = newFolder();
  const put = (name: string, content: string) => {
    writeFileSync(join(folder, `${name}.new`), content);
    renameSync(join(folder, `${name}.new`), join(folder, name));
  };
  for (const name of ['server.pem', 'server.key', 'authority.pem']) put(name, pem(name));
  put('web.yaml', JSON.stringify(web));
  const webConfigFile = Object.keys(web).length === 0 ? null : join(folder, 'web.yaml');
  const [log, commands] = [createTestLog(), [] as unknown[]];
  let skipped = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + skipped };
  const served = servedWith({
    async command(command) {
      commands.push(command);
      return { ok: true, result: { done: true } };
    },
    reload: async () => ({ changed: ['accounts'] }),
    clock,
    ...overrides,
  });
  const started = { host: '127.0.0.1', port: 0, webConfigFile, ...settings };
  const server = await startHttpServer(started, served, log, file => readWebConfig(file).config);
  afterThisTest(() => server.close());

  /** Sends a request. Rejects if the connection fails or is closed. */
  function ask(path: string, { tls = CA, body, ...init }: Ask = {}) {
    const { protocol, hostname, port } = new URL(server.url);
    const options = { hostname, port, path, agent: false as const, ...init };
    const received = Promise.withResolvers<{ status: number; headers: NodeJS.Dict<string | string[]>; text: string }>();
    const request = protocol === 'https:' ? requestHttps({ ...options, ...tls }) : requestHttp(options);
    request.on('error', received.reject).on('response', response => {
      let text = '';
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      response.on('end', () => received.resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    request.end(body);
    return received.promise;
  }

  return {
    server,
    settings: started,
    folder,
    put,
    log,
    commands,
    ask,
    status: async (path: string, init: Ask = {}) => (await ask(path, init)).status,
    /** Advances the clock, so that the next request checks the files for changes. */
    later() {
      skipped += 2000;
    },
    logText: () => JSON.stringify(log.lines),
  };
}
