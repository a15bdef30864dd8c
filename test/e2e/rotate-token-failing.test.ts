import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startHttpService } from '../support/http-service.ts';
import { HANGING, print, startRotation } from './rotation.ts';

const mode = (file: string) => (statSync(file).mode & 0o777).toString(8);

describe('a reset that does not come through', () => {
  /** Runs it against a fault; gives what it says, and how the folder is left. */
  const failing = async (fault: { kind: string; [key: string]: unknown }) => {
    const rotation = await startRotation(fault.kind === 'hang' ? { account: HANGING } : {});
    rotation.fault(fault);
    const { code, stdout, stderr } = await rotation.run();
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).not.toContain(rotation.emulator.token);
    return { rotation, said: stderr, unfinished: existsSync(`${rotation.tokenFile}.rotating.json`) };
  };

  it.each([
    ['5xx', { kind: 'status', status: 503 }, 'POST /svc/user/rotatetoken: status 503.'],
    ['429', { kind: 'status', status: 429 }, 'POST /svc/user/rotatetoken: status 429.'],
    ['a redirect', { kind: 'status', status: 307 }, 'POST /svc/user/rotatetoken: status 307.'],
    ['reset before it acts', { kind: 'reset' }, 'POST /svc/user/rotatetoken: UND_ERR_SOCKET.'],
    ['no answer, and it does not act', { kind: 'hang' }, 'POST /svc/user/rotatetoken: no answer in time.'],
  ])('%s: the old token still works, and nothing is left behind', async (_name, fault, message) => {
    const { rotation, said, unfinished } = await failing(fault);
    expect(said).toMatch(/^POST [^:]+: [\w. ]+ The token was not reset: sha256:\w{12} still works\.\n$/);
    if (fault.kind !== 'reset') expect(said).toContain(message);
    expect([rotation.resets(), rotation.token(), unfinished]).toEqual([0, rotation.first, false]);
    expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
    rotation.emulator.faults.clear();
    expect((await rotation.run()).code).toBe(0);
  });

  it('a page with success that did nothing: the old token still works, and the page is kept', async () => {
    const { rotation, said, unfinished } = await failing({ kind: 'html' });
    const [record = ''] = rotation.records();
    expect(said).toBe(
      `The response of the account management is not an account record. The token was not reset: ${print(rotation.first)} still works. The received part of the response is in ${record}: if it contains a "token", that is the new one.\n`,
    );
    expect(readFileSync(record, 'utf8')).toContain('<!DOCTYPE html>');
    expect([rotation.resets(), unfinished]).toEqual([0, false]);
  });

  it('a wrong password: the old token still works', async () => {
    const rotation = await startRotation();
    writeFileSync(rotation.passwordFile, 'wrong');
    const { code, stderr } = await rotation.run();
    expect(code).toBe(1);
    expect(stderr).toBe(
      `POST /svc/user/rotatetoken: status 401: management.username or management.password is wrong. The token was not reset: ${print(rotation.first)} still works.\n`,
    );
    expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
  });

  it('a refused connection: nothing was sent, whether the rest of the service answers or not', async () => {
    const gone = await startHttpService(() => undefined);
    await gone.close();
    const rotation = await startRotation({ managementUrl: gone.url });
    expect((await rotation.run()).stderr).toBe(
      `POST /svc/user/rotatetoken: ECONNREFUSED. The token was not reset: ${print(rotation.first)} still works.\n`,
    );
    await rotation.emulator.close();
    expect((await rotation.run()).stderr).toBe(
      `POST /svc/user/rotatetoken: ECONNREFUSED. The token was not reset: ${print(rotation.first)} is as it was, though the service could not be asked whether it accepts it (GET /v2/dlq: ECONNREFUSED).\n`,
    );
    expect(rotation.names()).toEqual(['password', 'token', 'token.rotating.json-lock']);
  });

  it.each([
    ['no answer', { kind: 'hang', acts: true }, 'no answer in time', ''],
    ['reset after it acts', { kind: 'reset', acts: true }, '', ''],
    [
      'an error that is none',
      { kind: 'status', status: 500, acts: true },
      'status 500',
      '{"error":"service unavailable"}',
    ],
    ['a page with success', { kind: 'html', acts: true }, 'not an account record', '<!DOCTYPE html>'],
    ['half an answer', { kind: 'truncate' }, '', '{"customer_id":"owner@example.com"'],
  ])('%s: the token was reset, which is found out, told, and not done again', async (_name, fault, cause, kept) => {
    const { rotation, said, unfinished } = await failing(fault);
    expect(said).toContain(cause);
    expect(said).toContain(
      `The old token is revoked: the service no longer accepts ${print(rotation.first)}, and the new one was lost.`,
    );
    expect(said).toContain('To recover, take the token from the service');
    expect([rotation.resets(), unfinished]).toEqual([1, true]);
    const [record = ''] = rotation.records();
    expect(readFileSync(record, 'utf8').trimEnd().startsWith(kept)).toBe(true);
    if (kept !== '') expect(said).toContain(`The received part of the response is in ${record}`);

    // Again: told again, with what can be done, and nothing is reset.
    rotation.emulator.faults.clear();
    const again = await rotation.run();
    expect([again.code, rotation.resets()]).toEqual([1, 1]);
    expect(again.stderr).toContain('is unfinished. The old token is revoked:');
    // What it says helps: the token from elsewhere …
    writeFileSync(rotation.tokenFile, rotation.emulator.token);
    const settled = await rotation.run();
    expect([settled.code, rotation.resets()]).toEqual([0, 1]);
    expect(settled.stdout).toContain(`It is settled: ${rotation.tokenFile} holds another token now`);
    expect(existsSync(`${rotation.tokenFile}.rotating.json`)).toBe(false);
  });

  it('… or another reset, once the user says so', async () => {
    const { rotation } = await failing({ kind: 'hang', acts: true });
    rotation.emulator.faults.clear();
    rmSync(`${rotation.tokenFile}.rotating.json`);
    expect((await rotation.run()).code).toBe(0);
    expect([rotation.resets(), rotation.token()]).toEqual([2, rotation.emulator.token]);
  });

  it('is open while the service can not be asked, and settled when it can', async () => {
    const rotation = await startRotation();
    rotation.emulator.faults.replace([
      { endpoint: 'POST /svc/user/rotatetoken', kind: 'status', status: 502 },
      { endpoint: 'GET /v2/dlq', kind: 'status', status: 502 },
    ]);
    const open = await rotation.run();
    expect(open.code).toBe(1);
    expect(open.stderr).toContain('It is unknown whether the token was reset');
    const again = await rotation.run();
    expect(again.stderr).toContain('It is unknown whether the token was reset');
    rotation.emulator.faults.clear();
    const settled = await rotation.run();
    expect([settled.code, rotation.resets(), rotation.token()]).toEqual([0, 1, rotation.emulator.token]);
    expect(settled.stdout).toContain(`The token was not reset then: ${print(rotation.first)} still works.`);
  });

  it('is told apart from a token that did not work before', async () => {
    const rotation = await startRotation({ account: HANGING });
    writeFileSync(rotation.tokenFile, 'long-gone');
    rotation.fault({ kind: 'hang' });
    const { stderr } = await rotation.run();
    expect(stderr).toContain('and did not before, so it is unknown whether the token was reset.');
  });

  it('finishes what a disk kept from being finished', async () => {
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

  it('stores the answer in a folder that no other user can enter when its disk fails after all', async () => {
    const rotation = await startRotation();
    const env = { ...rotation.crash({ fail: 'truncate token.rotated EIO' }), TMPDIR: rotation.folder };
    const { code, stdout } = await rotation.run(['--yes'], env);
    expect([code, rotation.token()]).toEqual([0, rotation.emulator.token]);
    const [, record = ''] = /credential, is in (\S+),/.exec(stdout) ?? [];
    expect(record.startsWith(join(rotation.folder, 'delivery-watch-'))).toBe(true);
    expect([dirname(dirname(record)), mode(dirname(record))]).toEqual([rotation.folder, '700']);
    expect([JSON.parse(readFileSync(record, 'utf8')).token, mode(record)]).toEqual([rotation.emulator.token, '600']);
  });

  it('leaves a token alone that is neither the old nor the new one', async () => {
    const rotation = await startRotation();
    await rotation.run(['--yes'], rotation.crash({ fail: 'write password.previous ENOSPC' }));
    writeFileSync(rotation.tokenFile, 'somebody-elses');
    const { code, stderr } = await rotation.run();
    expect([code, rotation.token()]).toEqual([1, 'somebody-elses']);
    expect(stderr).toContain('which is neither the token that was reset');
  });
});
