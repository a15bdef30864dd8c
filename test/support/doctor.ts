import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { DoctorDeps } from '../../src/cli/doctor/account.ts';
import { examine } from '../../src/cli/doctor/doctor.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { atThisLoad } from './eventually.ts';
import { newFolder } from './folder.ts';
import { json, serve } from './http-service.ts';

export const TOKEN = 'doctor-token';
/** A URL at which nothing listens. */
export const NOWHERE = 'http://127.0.0.1:1';

export interface Service {
  readonly url: string;
}

/** Writes a configuration file into a new folder that also contains its store. */
export function configFile({ url }: Service, more: object = {}, account: object = {}): string {
  const folder = newFolder();
  const file = join(folder, 'config.yaml');
  const config = {
    server: { listen: '127.0.0.1:0' },
    log: { level: 'silent' },
    store: { path: join(folder, 'store.db') },
    accounts: [{ name: 'a', baseUrl: url, token: { env: 'DELIVERY_TOKEN' }, ...account }],
    ...more,
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  return file;
}

/** Returns the findings, one line per check: `status check: detail → todo`. */
export async function diagnose(file: string, deps: Partial<DoctorDeps> = {}) {
  const { lines, isConfigValid } = await examine(file, {
    env: { DELIVERY_TOKEN: TOKEN },
    clock: systemClock,
    random: () => 0,
    signal: new AbortController().signal,
    timeout: atThisLoad(10_000),
    ...deps,
  });
  const all = lines.map(
    ({ status, account, check, detail, todo }) =>
      `${status} ${account === undefined ? '' : `${account} `}${check}: ${detail}${todo ? ` → ${todo}` : ''}`,
  );
  return {
    isConfigValid,
    all,
    statuses: Object.fromEntries(lines.map(({ status, check }) => [check, status])),
    /** Returns the lines of one check. */
    of: (check: string) => all.filter((_, index) => lines[index]?.check === check),
  };
}

/** Starts a service with one dead letter and one flow-control key. `change` may respond instead and then returns true. */
export const answers = (change: (path: string, response: ServerResponse) => boolean = () => false) =>
  serve((request, response) => {
    const path = new URL(request.url ?? '', NOWHERE).pathname;
    if (change(path, response)) return;
    if (path === '/') json(response, {}, 404);
    else if (request.headers.authorization !== `Bearer ${TOKEN}`) json(response, {}, 401);
    else if (path === '/v2/dlq')
      json(response, { messages: [{ dlqId: '1-0', messageId: 'm', url: 'https://x.test' }] });
    else if (path === '/v2/events') json(response, { events: [], cursor: null });
    else if (path === '/v2/flowControl') json(response, [{ flowControlKey: 'k', waitListSize: 1 }]);
    else if (path === '/v2/schedules' || path === '/v2/queues') json(response, []);
    else if (path === '/v2/workflows/logs') json(response, { runs: [] });
    else if (path === '/v2/flowControl/k') json(response, { flowControlKey: 'k', waitListSize: 1 });
    else json(response, {}, 404);
  });
