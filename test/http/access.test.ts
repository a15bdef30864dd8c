import { once } from 'node:events';
import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls, type SecureContextOptions } from 'node:tls';
import { hashSync } from 'bcryptjs';
import { describe, expect, it } from 'vitest';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { freePort } from '../support/prometheus.ts';
import { ALICE, CA, CLIENT, CLIENTS, PASSWORD, pem, STRANGER, serve, tlsWith, USERS } from './protected-server.ts';

const PATHS = ['/', '/metrics', '/probe?account=a', '/api/v1/status', '/api/v1/journal', '/-/healthy', '/nowhere'];

describe('users', () => {
  it('every path, including unknown ones, requires credentials, which are checked before the method', async () => {
    const { status, ask } = await serve(USERS);
    for (const path of PATHS) {
      expect([path, await status(path)]).toEqual([path, 401]);
      expect([path, await status(path, ALICE)]).toEqual([path, path === '/nowhere' ? 404 : 200]);
    }
    expect([await status('/-/reload', { method: 'POST' }), await status('/', { method: 'DELETE' })]).toEqual([
      401, 401,
    ]);
    expect((await ask('/metrics')).headers['www-authenticate']).toBe('Basic realm="delivery-watch", charset="UTF-8"');
  });

  it('every API route and page checks the host, then the credentials; the probe port checks neither', async () => {
    const { paths } = JSON.parse(readFileSync('docs/openapi.json', 'utf8')) as { paths: Record<string, object> };
    const probesPort = await freePort();
    const probes = { host: '127.0.0.1', port: probesPort };
    const { status, ask } = await serve(USERS, {}, { probes, allowedHosts: ['dw.example.com'] });
    const pages = ['/', '/accounts/a', '/auto-cancel', '/runbooks/DeliveryBlind', '/assets/0/style.css', '/metrics'];
    const routes = [
      ...Object.entries(paths).map(([path, methods]) => [path, Object.keys(methods)[0] ?? 'get']),
      ...pages.map(path => [path, 'get']),
    ];
    expect(routes.length).toBeGreaterThan(20);
    for (const [path = '', method = ''] of routes) {
      const way = { method: method.toUpperCase() };
      const headers = { Host: 'dw.example.com' };
      expect([path, await status(path, { ...way, headers })]).toEqual([path, 401]);
      expect([path, await status(path, way)]).toEqual([path, 421]);
      const answer = await fetch(`http://127.0.0.1:${probesPort}${path}`, way);
      expect([path, answer.status]).toEqual([path, path.startsWith('/-/') && path !== '/-/reload' ? 200 : 404]);
    }
    expect((await ask('/-/healthy', { headers: { Host: 'dw.example.com' }, ...ALICE })).status).toBe(200);
  });

  it('authentication rejects users that are not in the file, and wrong passwords', async () => {
    const { status, logText } = await serve(USERS);
    for (const auth of [
      'alice:wrong',
      'alice:',
      'alice',
      ':',
      `mallory:${PASSWORD}`,
      `Alice:${PASSWORD}`,
      `alice:${PASSWORD} `,
      `alice:${'a'.repeat(8000)}`,
      `alice:\0${PASSWORD}`,
      '__proto__:x',
      `constructor:${PASSWORD}`,
    ]) {
      expect([auth, await status('/metrics', { auth })]).toEqual([auth, 401]);
    }
    const right = btoa(ALICE.auth);
    for (const authorization of ['', 'Basic', 'Basic !', `Bearer ${right}`, `Basic ${right}, Basic x`, 'Basic =']) {
      expect([authorization, await status('/metrics', { headers: { authorization } })]).toEqual([authorization, 401]);
    }
    expect(logText()).not.toContain('canary');
  });

  it('user names and passwords may contain non-ASCII characters, colons and spaces', async () => {
    const password = 'pä:ss wörd ☃';
    const { status } = await serve({ basic_auth_users: { 'jürgen 2': hashSync(password, 4) } });
    const authorization = (scheme: string) => `${scheme} ${Buffer.from(`jürgen 2:${password}`).toString('base64')}`;
    for (const scheme of ['Basic', 'basic', 'BASIC']) {
      expect(await status('/metrics', { headers: { authorization: authorization(scheme) } })).toBe(200);
    }
  });

  it('the host is checked before the user and password', async () => {
    const { status } = await serve(USERS, {}, { allowedHosts: ['dw.example.com'] });
    expect([await status('/metrics'), await status('/metrics', ALICE)]).toEqual([421, 421]);
    expect(await status('/metrics', { headers: { host: 'dw.example.com' } })).toBe(401);
    expect(await status('/metrics', { ...ALICE, headers: { host: 'dw.example.com' } })).toBe(200);
  });

  it('a changed password replaces the old one', async () => {
    const { status, put, later } = await serve(USERS);
    expect(await status('/metrics', ALICE)).toBe(200);
    put('web.yaml', JSON.stringify({ basic_auth_users: { alice: hashSync('other', 4) } }));
    later();
    expect([await status('/metrics', ALICE), await status('/metrics', { auth: 'alice:other' })]).toEqual([401, 200]);
  });
});

describe('TLS', () => {
  it('the port accepts only TLS connections if TLS is configured', async () => {
    const { server, ask } = await serve(tlsWith());
    expect(server.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
    expect((await ask('/metrics')).text).toBe('# EOF\n');
    await expect(fetch(server.url.replace('https', 'http'))).rejects.toThrow();
    expect(JSON.parse((await ask('/api/v1/sd')).text)[0].labels.__scheme__).toBe('https');
  });

  it('TLS accepts only the configured protocol versions', async () => {
    const [from12, from13] = [await serve(tlsWith()), await serve(tlsWith({ min_version: 'TLS13' }))];
    const [TLS12, TLS13] = [
      { tls: { ...CA, maxVersion: 'TLSv1.2' } },
      { tls: { ...CA, minVersion: 'TLSv1.3' } },
    ] as const;
    await expect(from13.ask('/', TLS12)).rejects.toThrow(/alert protocol version/);
    for (const response of [from13.ask('/', TLS13), from12.ask('/', TLS12), from12.ask('/', TLS13)]) {
      expect((await response).status).toBe(200);
    }
    const old = { ...CA, minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } as const;
    await expect(from12.ask('/', { tls: old })).rejects.toThrow();
  });

  it('TLS reloads changed certificate files for new connections', async () => {
    const { server, put, later, logText } = await serve(tlsWith());
    const serial = () =>
      new Promise<string>((resolve, reject) => {
        const socket = connectTls({ ...CA, host: '127.0.0.1', port: Number(new URL(server.url).port) }, () => {
          resolve(String(socket.getPeerCertificate().subject.CN));
          socket.destroy();
        }).on('error', reject);
      });
    expect(await serial()).toBe('server');
    put('server.key', pem('renewed.key'));
    put('server.pem', pem('renewed.pem'));
    later();
    expect(await serial()).toBe('renewed');
    expect(logText()).not.toContain('PRIVATE');
  });

  it('TLS reloads the certificate files when a symbolic link in their path changes, as in Kubernetes', async () => {
    const { folder, put, status, later, logText } = await serve(tlsWith());
    const renewed = newFolder();
    for (const kind of ['pem', 'key']) writeFileSync(join(renewed, `server.${kind}`), pem(`renewed.${kind}`));
    put('web.yaml', JSON.stringify({ tls_server_config: { cert_file: 'now/server.pem', key_file: 'now/server.key' } }));
    symlinkSync(folder, join(folder, 'now'));
    later();
    expect(await status('/')).toBe(200);
    rmSync(join(folder, 'now'));
    symlinkSync(renewed, join(folder, 'now'));
    later();
    expect(await status('/')).toBe(200);
    expect(logText().match(/was read again and is in use/g)).toHaveLength(2);
  });
});

describe('client certificates', () => {
  it('client certificates are required and verified', async () => {
    const { ask, status } = await serve(CLIENTS);
    expect(await status('/metrics', { tls: CLIENT })).toBe(200);
    await expect(ask('/metrics')).rejects.toThrow();
    await expect(ask('/metrics', { tls: STRANGER })).rejects.toThrow();
  });

  it.each([
    ['NoClientCert', {}, [true, true, true]],
    ['RequestClientCert', {}, [true, true, true]],
    ['RequireAnyClientCert', {}, [false, true, true]],
    ['RequireClientCert', {}, [false, true, true]],
    ['VerifyClientCertIfGiven', { client_ca_file: 'authority.pem' }, [true, true, false]],
    ['RequireAndVerifyClientCert', { client_ca_file: 'authority.pem' }, [false, true, false]],
  ])(
    'client_auth_type %s determines whether clients with no, a trusted or an untrusted certificate are accepted: %j',
    async (client_auth_type, more, expected) => {
      const { ask } = await serve(tlsWith({ client_auth_type, ...more }));
      const isAccepted = (tls: SecureContextOptions) =>
        ask('/', { tls }).then(
          ({ status }) => status === 200,
          () => false,
        );
      expect([await isAccepted(CA), await isAccepted(CLIENT), await isAccepted(STRANGER)]).toEqual(expected);
    },
  );

  it('replacing the client CA closes existing connections and invalidates TLS sessions', async () => {
    const { server, put, later } = await serve(CLIENTS);
    const port = Number(new URL(server.url).port);
    const open = (session?: Buffer) =>
      new Promise<{ ask(): Promise<string>; session(): Buffer | undefined }>((resolve, reject) => {
        let last: Buffer | undefined;
        const socket = connectTls({ ...CLIENT, host: '127.0.0.1', port, ...(session ? { session } : {}) }, () =>
          resolve({
            session: () => last,
            ask: () =>
              new Promise(settle => {
                socket.once('data', data => settle(String(data).slice(0, 12))).once('close', () => settle('closed'));
                socket.write('GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n');
              }),
          }),
        );
        socket.on('session', given => {
          last = given;
        });
        socket.on('error', reject);
        afterThisTest(async () => void socket.destroy());
      });
    const first = await open();
    expect(await first.ask()).toBe('HTTP/1.1 200');
    const second = await open(first.session());
    expect(await second.ask()).toBe('HTTP/1.1 200');
    // Renewing only the server certificate keeps the client connected.
    put('server.key', pem('renewed.key'));
    put('server.pem', pem('renewed.pem'));
    later();
    expect(await first.ask()).toBe('HTTP/1.1 200');
    put('authority.pem', pem('other-authority.pem'));
    later();
    expect(await first.ask()).toBe('closed');
    const third = open(second.session()).then(({ ask }) => ask());
    await expect(third.catch(() => 'closed')).resolves.toBe('closed');
  });

  it('replacing the client CA aborts TLS handshakes in progress', async () => {
    const { server, put, later, status } = await serve(CLIENTS);
    const slow = connect(Number(new URL(server.url).port), '127.0.0.1');
    afterThisTest(async () => void slow.destroy());
    await once(slow, 'connect');
    // Once the server has responded to a later connection, it has also accepted this one.
    expect(await status('/', { tls: CLIENT })).toBe(200);
    put('authority.pem', pem('other-authority.pem'));
    later();
    await expect(status('/', { tls: CLIENT })).rejects.toThrow();
    const socket = connectTls({ ...CLIENT, socket: slow });
    const received = new Promise<string>(settle => {
      socket.once('data', data => settle(String(data).slice(0, 12)));
      for (const event of ['close', 'error']) socket.once(event, () => settle('closed'));
    });
    socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
    expect(await received).toBe('closed');
  });
});

describe('unusable web-config files', () => {
  const GOOD = { ...tlsWith(), ...USERS };
  it.each([
    ['invalid YAML', 'web.yaml', '{'],
    ['empty', 'web.yaml', ''],
    ['cut off before its users', 'web.yaml', JSON.stringify(tlsWith())],
    ['cut off before TLS', 'web.yaml', JSON.stringify(USERS)],
    ['with client certificates required', 'web.yaml', JSON.stringify({ ...CLIENTS, ...USERS })],
    ['an invalid certificate', 'server.pem', 'canary'],
    ['a key of another certificate', 'server.key', pem('renewed.key')],
    ['missing', 'web.yaml', undefined],
    ['a missing key', 'server.key', undefined],
  ])(
    'the port rejects all requests while the web-config or TLS files are unusable, logs the error once, and recovers when they are fixed: %s',
    async (_name, name, content) => {
      const { ask, status, put, later, log, folder, logText } = await serve(GOOD);
      expect(await status('/metrics', ALICE)).toBe(200);
      const before = readFileSync(join(folder, name), 'utf8');
      if (content === undefined) rmSync(join(folder, name));
      else put(name, content);
      for (const path of PATHS) {
        later();
        expect([path, await status(path, ALICE)]).toEqual([path, 503]);
      }
      expect((await ask('/metrics')).text).toBe('the web configuration cannot be used: see the log\n');
      expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
        ['error', 'the web configuration cannot be used; all requests are refused'],
      ]);
      put(name, before);
      later();
      expect([await status('/metrics', ALICE), await status('/metrics')]).toEqual([200, 401]);
      expect(log.lines.at(-1)).toMatchObject({ level: 'info' });
      expect(logText()).not.toMatch(/canary|PRIVATE|\$2/);
    },
  );

  it('startup fails if the web-config file is invalid, and the error states the position of the problem', async () => {
    await expect(serve({ http_server_config: { http2: true } })).rejects.toThrow(
      /web\.yaml:1:2: http_server_config: unknown key; allowed here: tls_server_config, basic_auth_users/,
    );
  });
});
