import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { allKeys, createTestClient } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { json, serve } from '../support/http-service.ts';
import { runs } from '../support/runs.ts';

const signal = () => new AbortController().signal;
const ROTATION = '/v2/keys/rotate';

describe('single flow-control keys', () => {
  it.each(['/v2/flowControl/{flowControlKey}', '/v2/keys/rotate/{flowControlKey}'])(
    'a single key is read at %s regardless of its name',
    async flowControlKeyPath => {
      const service = await serve((_request, response) => json(response, { waitlistSize: 7 }));
      const { reader, counts } = createTestClient(service.url, { flowControlKeyPath });
      const before = flowControlKeyPath.replace('{flowControlKey}', '');
      for (const key of ['k', 'a/b c?d#e', '../x', '%2e', 'snö', '{flowControlKey}', '$&']) {
        expect(await reader.flowControlKey(key, signal())).toEqual({ key, waitlistSize: 7 });
        expect(service.requests.at(-1)).toBe(`GET ${before}${encodeURIComponent(key)}`);
      }
      expect(counts.requests).toEqual({ 'flow_control_key ok': 7 });
    },
  );

  it('a single key is never requested at the adjacent path that rotates the signing keys', async () => {
    const service = await serve((_request, response) => json(response, { waitlistSize: 7 }));
    const path = `${ROTATION}/{flowControlKey}`;
    const { reader } = createTestClient(service.url, { flowControlKeyPath: path });
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.constantFrom('', '.', '..', './', '/', '../rotate', '%2e%2e'), fc.string()),
        async key => {
          await reader.flowControlKey(key, signal()).catch(error => expect(error).toMatchObject({ reason: 'refused' }));
        },
      ),
      { numRuns: runs(200) },
    );
    const paths = service.requests.map(request => new URL(request.split(' ')[1] ?? '', 'http://x').pathname);
    expect(paths.length).toBeGreaterThan(0);
    expect(paths.filter(path => !/^\/v2\/keys\/rotate\/[^/]+$/.test(path))).toEqual([]);
  });

  it('a single key is not requested if the configured path, in any spelling, would rotate signing keys', async () => {
    const service = await serve((_request, response) => json(response, {}));
    for (const flowControlKeyPath of [ROTATION, `${ROTATION}/`, '/v2/keys/x/../rotate', '/v2//keys/rotate//']) {
      const { reader, counts } = createTestClient(service.url, { flowControlKeyPath });
      await expect(reader.flowControlKey('k', signal())).rejects.toMatchObject({ reason: 'refused' });
      expect(counts.requests).toEqual({ 'flow_control_key refused': 1 });
    }
    expect(service.requests).toEqual([]);
  });

  it.each([
    [404, 'not_found'],
    [400, 'refused'],
    [405, 'refused'],
  ])('reading a single key fails after status %d, without a retry', async (status, reason) => {
    const service = await serve((_request, response) => json(response, { error: 'no' }, status));
    const { reader } = createTestClient(service.url);
    await expect(reader.flowControlKey('k', signal())).rejects.toMatchObject({ reason });
    expect(service.requests).toEqual(['GET /v2/flowControl/k']);
  });

  it('reading a single key fails when the service fails or responds with another key', async () => {
    for (const [status, body, reason] of [
      [403, {}, 'forbidden'],
      [503, {}, 'server'],
      [200, { flowControlKey: 'other', waitlistSize: 1 }, 'invalid_response'],
      [200, { flowControlKey: 'K', waitlistSize: 1 }, 'invalid_response'],
      [200, { flowControlKey: 'k-2', waitlistSize: 1 }, 'invalid_response'],
      [200, { flowControls: [{ flowControlKey: 'k', waitListSize: 1 }] }, 'invalid_response'],
      [200, [], 'invalid_response'],
    ] as const) {
      const service = await serve((_request, response) => json(response, body, status));
      const { reader } = createTestClient(service.url);
      await expect(reader.flowControlKey('k', signal())).rejects.toMatchObject({ reason });
    }
  });

  it('a single key is requested from the regional URL', async () => {
    const base = await serve((_request, response) => json(response, []));
    const regional = await serve((_request, response) => json(response, { waitlistSize: 1 }));
    const { reader } = createTestClient(base.url, { addresses: { base: base.url, regional: `${regional.url}/eu/` } });
    await reader.flowControlKey('k', signal());
    await allKeys(reader, signal());
    expect([base.requests, regional.requests]).toEqual([['GET /v2/flowControl'], ['GET /eu/v2/flowControl/k']]);
  });

  it("a single key matches the emulator's state with both paths, and no signing key is ever rotated", async () => {
    const emulator = await emulate({ history: 0, dlqEntries: 0, speed: 0, dialect: { idleKey: 'missing' } });
    emulator.state.setWaitlist('a/b c?d', 9);
    for (const flowControlKeyPath of ['/v2/flowControl/{flowControlKey}', `${ROTATION}/{flowControlKey}`]) {
      const { reader } = createTestClient(emulator.url, {
        flowControlKeyPath,
        token: async () => new Secret(emulator.token),
      });
      expect(await reader.flowControlKey('a/b c?d', signal())).toMatchObject({ key: 'a/b c?d', waitlistSize: 9 });
      await expect(reader.flowControlKey('unheard of', signal())).rejects.toMatchObject({ reason: 'not_found' });
    }
    expect(emulator.credentials.keyRotations).toBe(0);
  });
});
