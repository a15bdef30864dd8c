import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { startHttpService } from '../support/http-service.ts';
import { HANGING, print, startRotation } from './rotation.ts';

describe('failed resets', () => {
  /** Runs a token reset with an injected fault and expects it to fail. Returns the rotation, stderr, and whether the reset is unfinished. */
  const failing = async (fault: { kind: string; [key: string]: unknown }) => {
    const rotation = await startRotation(fault.kind === 'hang' ? { account: HANGING } : {});
    rotation.fault(fault);
    const { code, stdout, stderr } = await rotation.run();
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).not.toContain(rotation.emulator.token);
    return { rotation, stderr, unfinished: existsSync(`${rotation.tokenFile}.rotating.json`) };
  };

  it.each([
    ['5xx', { kind: 'status', status: 503 }, 'POST /svc/user/rotatetoken: status 503.'],
    ['429', { kind: 'status', status: 429 }, 'POST /svc/user/rotatetoken: status 429.'],
    ['a redirect', { kind: 'status', status: 307 }, 'POST /svc/user/rotatetoken: status 307.'],
    ['a connection reset before the token reset', { kind: 'reset' }, 'POST /svc/user/rotatetoken: UND_ERR_SOCKET.'],
    ['no response and no token reset', { kind: 'hang' }, 'POST /svc/user/rotatetoken: no response in time.'],
  ])(
    'rotate-token keeps the old token and leaves only the lock file behind if the reset fails with %s',
    async (_name, fault, message) => {
      const { rotation, stderr, unfinished } = await failing(fault);
      expect(stderr).toMatch(/^POST [^:]+: [\w. ]+ The token was not reset: sha256:\w{12} still works\.\n$/);
      if (fault.kind !== 'reset') expect(stderr).toContain(message);
      expect([rotation.resets(), rotation.token(), unfinished]).toEqual([0, rotation.first, false]);
      expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
      rotation.emulator.faults.clear();
      expect((await rotation.run()).code).toBe(0);
    },
  );

  it('rotate-token keeps the old token, and stores the response, if the service returns an HTML page and resets nothing', async () => {
    const { rotation, stderr, unfinished } = await failing({ kind: 'html' });
    const [record = ''] = rotation.records();
    expect(stderr).toBe(
      `The response of the account management is not an account record. The token was not reset: ${print(rotation.first)} still works. The received part of the response is in ${record}: if it contains a "token", that is the new one.\n`,
    );
    expect(readFileSync(record, 'utf8')).toContain('<!DOCTYPE html>');
    expect([rotation.resets(), unfinished]).toEqual([0, false]);
  });

  it('rotate-token keeps the old token after a wrong password', async () => {
    const rotation = await startRotation();
    writeFileSync(rotation.passwordFile, 'wrong');
    const { code, stderr } = await rotation.run();
    expect(code).toBe(1);
    expect(stderr).toBe(
      `POST /svc/user/rotatetoken: status 401: management.username or management.password is wrong. The token was not reset: ${print(rotation.first)} still works.\n`,
    );
    expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
  });

  it('rotate-token reports after a refused connection that the token was not reset', async () => {
    const gone = await startHttpService(() => undefined);
    await gone.close();
    const rotation = await startRotation({ managementUrl: gone.url });
    expect((await rotation.run()).stderr).toBe(
      `POST /svc/user/rotatetoken: ECONNREFUSED. The token was not reset: ${print(rotation.first)} still works.\n`,
    );
    writeFileSync(rotation.tokenFile, 'long-gone');
    expect((await rotation.run()).stderr).toBe(
      `POST /svc/user/rotatetoken: ECONNREFUSED. The token was not reset: the service does not accept ${print('long-gone')}, as before.\n`,
    );
    expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
  });

  it.each([
    ['no response', { kind: 'hang', acts: true }, 'no response in time', ''],
    ['a connection reset after the token reset', { kind: 'reset', acts: true }, '', ''],
    ['an error response', { kind: 'status', status: 500, acts: true }, 'status 500', '{"error":"service unavailable"}'],
    ['an HTML page', { kind: 'html', acts: true }, 'not an account record', '<!DOCTYPE html>'],
    ['half a response', { kind: 'truncate' }, '', '{"customer_id":"owner@example.com"'],
  ])(
    'rotate-token detects and reports a reset despite %s, and does not repeat it',
    async (_name, fault, cause, kept) => {
      const { rotation, stderr, unfinished } = await failing(fault);
      expect(stderr).toContain(cause);
      expect(stderr).toContain(
        `The old token is revoked: the service no longer accepts ${print(rotation.first)}, and the new one was lost.`,
      );
      expect(stderr).toContain('To recover, take the token from the service');
      expect([rotation.resets(), unfinished]).toEqual([1, true]);
      const [record = ''] = rotation.records();
      expect(readFileSync(record, 'utf8').trimEnd().startsWith(kept)).toBe(true);
      if (kept !== '') expect(stderr).toContain(`The received part of the response is in ${record}`);

      // The next run again reports the error and the ways to recover, and resets nothing.
      rotation.emulator.faults.clear();
      const again = await rotation.run();
      expect([again.code, rotation.resets()]).toEqual([1, 1]);
      expect(again.stderr).toContain('is unfinished. The old token is revoked:');
      // Copying the new token from another place, as advised, resolves the error.
      writeFileSync(rotation.tokenFile, rotation.emulator.token);
      const settled = await rotation.run();
      expect([settled.code, rotation.resets()]).toEqual([0, 1]);
      expect(settled.stdout).toContain(
        `This run ends the reset, because ${rotation.tokenFile} now contains ${print(rotation.emulator.token)}, which works.`,
      );
      expect(existsSync(`${rotation.tokenFile}.rotating.json`)).toBe(false);
    },
  );

  it.each([400, 403, 409, 429])(
    'rotate-token stores the new token if a gateway replaces the status of a successful reset by %i',
    async status => {
      const rotation = await startRotation();
      const gateway = await startHttpService(async (request, response) => {
        const { authorization = '' } = request.headers;
        const reset = await fetch(`${rotation.emulator.url}${request.url}`, {
          method: 'POST',
          headers: { authorization },
        });
        response.writeHead(status).end(await reset.text());
      });
      rotation.configure({ managementUrl: gateway.url });
      const { code, stdout } = await rotation.run();
      expect([code, rotation.resets(), rotation.token()]).toEqual([0, 1, rotation.emulator.token]);
      expect(stdout).toContain(`POST /svc/user/rotatetoken: status ${status}.`);
      expect(existsSync(`${rotation.tokenFile}.rotating.json`)).toBe(false);
      await gateway.close();
    },
  );

  it('rotate-token keeps the response if a gateway wraps it and refuses the request', async () => {
    const rotation = await startRotation();
    const gateway = await startHttpService(async (request, response) => {
      const { authorization = '' } = request.headers;
      const reset = await fetch(`${rotation.emulator.url}${request.url}`, {
        method: 'POST',
        headers: { authorization },
      });
      response.writeHead(403).end(JSON.stringify({ message: await reset.text() }));
    });
    rotation.configure({ managementUrl: gateway.url });
    const { code, stderr } = await rotation.run();
    const [record = ''] = rotation.records();
    expect([code, rotation.resets()]).toEqual([1, 1]);
    expect(readFileSync(record, 'utf8')).toContain(rotation.emulator.token);
    expect(stderr).toContain(`The received part of the response is in ${record}`);
    await gateway.close();
  });

  it('rotate-token repeats a reset after the user has removed the marker file', async () => {
    const { rotation } = await failing({ kind: 'hang', acts: true });
    rotation.emulator.faults.clear();
    rmSync(`${rotation.tokenFile}.rotating.json`);
    expect((await rotation.run()).code).toBe(0);
    expect([rotation.resets(), rotation.token()]).toEqual([2, rotation.emulator.token]);
  });

  it('rotate-token leaves a reset unfinished while the service is unavailable, and settles it afterwards', async () => {
    const rotation = await startRotation({ account: HANGING });
    rotation.fault({ kind: 'hang' });
    const command = rotation.start();
    await eventually(() => expect(existsSync(`${rotation.tokenFile}.rotating.json`)).toBe(true));
    rotation.emulator.faults.replace([
      { endpoint: 'POST /svc/user/rotatetoken', kind: 'hang' },
      { endpoint: 'GET /v2/dlq', kind: 'status', status: 502 },
    ]);
    expect(await command.ended).toBe(1);
    expect(command.stderr()).toContain('It is unknown whether the token was reset');
    const again = await rotation.run();
    expect(again.stderr).toContain('It is unknown whether the token was reset');
    rotation.emulator.faults.clear();
    const settled = await rotation.run();
    expect([settled.code, rotation.resets(), rotation.token()]).toEqual([0, 1, rotation.emulator.token]);
    expect(settled.stdout).toContain(`The token was not reset: ${print(rotation.first)} still works.`);
  });

  it('rotate-token reports the outcome as unknown if the token was invalid before the reset', async () => {
    const rotation = await startRotation({ account: HANGING });
    writeFileSync(rotation.tokenFile, 'long-gone');
    rotation.fault({ kind: 'hang' });
    const { stderr } = await rotation.run();
    expect(stderr).toContain('and did not before this reset, so it is unknown whether the token was reset.');
  });

  it('rotate-token finishes a run that failed because of a full disk', async () => {
    const rotation = await startRotation();
    const half = await rotation.run(['--yes'], rotation.crash({ fail: 'write password.previous ENOSPC' }));
    expect(half.code).toBe(1);
    expect(half.stderr).toContain(
      `Put the value of "password" in ${rotation.records()[0]} into ${rotation.passwordFile}, which can't be replaced (ENOSPC).`,
    );
    expect([rotation.token(), readFileSync(rotation.passwordFile, 'utf8')]).toEqual([
      rotation.emulator.token,
      rotation.password,
    ]);
    const rest = await rotation.run();
    expect([rest.code, rotation.resets()]).toEqual([0, 1]);
    expect(readFileSync(rotation.passwordFile, 'utf8')).toBe(rotation.emulator.credentials.password);
  });

  it('rotate-token does not replace a token that is neither the old nor the new one', async () => {
    const rotation = await startRotation();
    await rotation.run(['--yes'], rotation.crash({ fail: 'write password.previous ENOSPC' }));
    writeFileSync(rotation.tokenFile, 'somebody-elses');
    const { code, stderr } = await rotation.run();
    expect([code, rotation.token()]).toEqual([1, 'somebody-elses']);
    expect(stderr).toContain(
      `contains ${print('somebody-elses')}, not the new token ${print(rotation.emulator.token)}`,
    );
  });
});
