import { readFileSync } from 'node:fs';
import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';
import { Command } from 'commander';
import { valueAt } from '../config/errors.ts';
import { readYaml } from '../config/yaml-file.ts';

/** Same as in http/options.ts, which is not imported because this command must start fast. */
const DEFAULT_LISTEN = '0.0.0.0:10922';

const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '[::]': '[::1]' };

const readContent = (file: string) => readYaml(readFileSync(file, 'utf8'), file).content;

/**
 * Returns the `/-/healthy` URL of the local agent with this configuration file. Uses defaults for unreadable keys, because
 * an agent survives an invalid file.
 */
export function healthUrl(file: string): string {
  const content = readContent(file);
  const key = (name: string) => {
    const value = valueAt(content, ['server', name]);
    return typeof value === 'string' ? value : undefined;
  };
  const [probes, webConfig] = [key('probesListen'), key('webConfigFile')];
  const listen = probes ?? key('listen') ?? DEFAULT_LISTEN;
  const found = /^(\[[0-9A-Fa-f:.]+\]|[^\s:[\]/]+):(\d{1,5})$/.exec(listen);
  if (!found) throw new Error(`${file}: ${listen} is not host:port`);
  const [, host = '', port] = found;
  // The probe port has no TLS.
  const isTls =
    probes === undefined &&
    webConfig !== undefined &&
    valueAt(readContent(webConfig), ['tls_server_config']) !== undefined;
  return `${isTls ? 'https' : 'http'}://${LOOPBACK[host] ?? host}:${port}/-/healthy`;
}

/** Timeout of a health request (ms). A busy machine may need seconds to respond. */
const TIMEOUT = 4000;

/** Resolves if a server responds with any status or TLS alert. Ignores the certificate, which rarely names the loopback address. */
export function requestHealth(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain;
    const request = get(url, { agent: false, rejectUnauthorized: false, timeout: TIMEOUT }, response => {
      response.resume();
      resolve();
    });
    request.on('timeout', () => request.destroy(new Error(`no response within ${TIMEOUT / 1000} s`)));
    request.on('error', error => {
      // An alert number proves that the server has responded.
      if (/SSL alert number \d/.test(error.message)) resolve();
      else reject(new Error(`${url}: ${error.message}`, { cause: error }));
    });
  });
}

export function healthcheckCommand(): Command {
  return new Command('healthcheck')
    .description(
      'exit 0 if the agent of a configuration file responds on this machine, otherwise 1; for container engines',
    )
    .requiredOption('--config <file>', 'configuration file of the running agent; required')
    .action(async ({ config }: { config: string }) => requestHealth(healthUrl(config)));
}
