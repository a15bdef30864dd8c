import { createServer as createPlain } from 'node:http';
import { createServer as createSecure } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Server } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import { requestHealth } from '../../src/cli/healthcheck.ts';
import { createCertificate } from '../hostile/certificate.ts';
import { startAgent } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { freePort, requireProgram } from '../support/prometheus.ts';

const servers: Server[] = [];
afterAll(() => Promise.all(servers.map(server => new Promise(resolve => server.close(resolve)))));

/** Starts a server and returns the URL of its health check without the scheme. */
async function open(server: Server): Promise<string> {
  servers.push(server);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}/-/healthy`;
}

describe('requestHealth', () => {
  it.each([200, 401, 421, 503])('requestHealth treats status %i as healthy', async status => {
    const at = await open(createPlain((_request, response) => response.writeHead(status).end()));
    await expect(requestHealth(`http://${at}`)).resolves.toBeUndefined();
  });

  it('requestHealth rejects if nothing listens on the port', async () => {
    const port = await freePort();
    await expect(requestHealth(`http://127.0.0.1:${port}/-/healthy`)).rejects.toThrow(
      `http://127.0.0.1:${port}/-/healthy: connect ECONNREFUSED`,
    );
  });

  it('requestHealth rejects if a process accepts connections but never responds', async () => {
    const at = await open(createTcp(socket => socket.resume()));
    await expect(requestHealth(`http://${at}`)).rejects.toThrow(`http://${at}: no response within 4 s`);
  });

  describe.skipIf(!requireProgram('openssl'))('with TLS', () => {
    it("requestHealth ignores the name and issuer of the server's certificate", async () => {
      const at = await open(createSecure(createCertificate(), (_request, response) => response.end()));
      await expect(requestHealth(`https://${at}`)).resolves.toBeUndefined();
    });

    it.each(['TLSv1.2', 'TLSv1.3'] as const)(
      'requestHealth treats a %s server that requires a client certificate as healthy',
      async version => {
        const asking = { ...createCertificate(), requestCert: true, rejectUnauthorized: true, maxVersion: version };
        const at = await open(createSecure(asking, (_request, response) => response.end()));
        await expect(requestHealth(`https://${at}`)).resolves.toBeUndefined();
      },
    );

    it('requestHealth rejects if the process on an HTTPS port does not use TLS', async () => {
      const at = await open(createPlain((_request, response) => response.end()));
      await expect(requestHealth(`https://${at}`)).rejects.toThrow(`https://${at}: `);
    });
  });
});

describe('command healthcheck', () => {
  it('healthcheck exits with 0 while the agent runs, otherwise with 1 and a reason without secrets', async () => {
    const port = await freePort();
    const agent = await startAgent({
      server: { listen: `127.0.0.1:${port}` },
      accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'token-canary' }],
    });
    const check = () => runCli(['healthcheck', '--config', agent.configFile]);
    expect(await check()).toEqual({ code: 0, stdout: '', stderr: '' });
    await agent.end();
    expect(await check()).toEqual({
      code: 1,
      stdout: '',
      stderr: `http://127.0.0.1:${port}/-/healthy: connect ECONNREFUSED 127.0.0.1:${port}\n`,
    });
  });
});
