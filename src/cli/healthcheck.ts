import { randomUUID } from 'node:crypto';
import { Command } from 'commander';
import { agentUrls, readStoredKey } from '../agent/peer-key.ts';
import { valueAt } from '../config/errors.ts';
import { readText, tryRead } from '../config/text-file.ts';
import { readYaml } from '../config/yaml-file.ts';
import { createPeerKey, HEALTH_PATH, healthOfPeer, healthPathOf } from '../http/peer.ts';
import { endWithin, unlessAborted, withDeadline } from '../kit/clock.ts';
import { attachStore } from '../store/open.ts';
import { storeOptions } from '../store/options.ts';
import { configOption } from './config-option.ts';

/** Time limits of the store and of the requests (ms). The image's HEALTHCHECK allows 5 s; a busy machine may respond slowly. */
const [STORE_WITHIN, RESPONSE_WITHIN] = [1000, 3000];

const never = new AbortController().signal;

/** Returns the key and the addresses in the agent's store. Rejects if it cannot be used. */
async function readStore(section: unknown, file: string) {
  const store = await attachStore(storeOptions.parse(section ?? {}), { env: process.env });
  // Agents with the same key differ in this path.
  const path = store.agents ? healthPathOf(file) : HEALTH_PATH;
  return { key: await readStoredKey(store), urls: await agentUrls(store), path };
}

/** Rejects unless the agent of a configuration file responds on this machine. Either the file or the store suffices. */
async function checkHealth(file: string): Promise<void> {
  const found = tryRead(() => readText(file));
  const isThere = 'content' in found;
  const { content } = readYaml(isThere ? found.content : '', file);
  const stored = readStore(valueAt(content, ['store']), file);
  const known = await withDeadline(STORE_WITHIN, never, signal => unlessAborted(stored, signal)).catch(() => undefined);
  const { key, urls = [], path = HEALTH_PATH } = known ?? {};
  if (!key && !isThere) throw new Error(`${file} ${found.wrong}`);
  // The default is not imported, because this command must start fast.
  const listen = valueAt(content, ['server', 'listen']) ?? '0.0.0.0:10922';
  const addresses = [listen, valueAt(content, ['server', 'probesListen'])].filter(
    address => typeof address === 'string',
  );
  const own = addresses.flatMap(address => [`http://${address}`, `https://${address}`]);
  const peer = { key: key ?? createPeerKey(randomUUID()), isLocal: true };
  await withDeadline(RESPONSE_WITHIN, never, async signal => {
    const requests = [...urls, ...own].map(url =>
      healthOfPeer({ ...peer, url }, key !== undefined, path, signal).catch((error: Error) => {
        // These TLS alerts show that the server responds, but requires a client certificate.
        if (own.includes(url) && /SSL alert number (40|42|116)\b/.test(error.message)) return;
        throw new Error(`${url}: ${error.message}`, { cause: error });
      }),
    );
    await Promise.any(requests).catch(({ errors }: AggregateError) => {
      throw errors[0];
    });
  });
}

export function healthcheckCommand(): Command {
  return new Command('healthcheck')
    .description(
      'exit 0 if the agent that runs with this configuration responds on this machine, otherwise 1; for container engines',
    )
    .addOption(configOption('configuration file of the running agent'))
    .action(async ({ config }: { config: string }) => {
      // A database that does not respond would keep the process alive.
      await checkHealth(config).finally(() => endWithin(0));
    });
}
