import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { valueAt } from '../config/errors.ts';
import { readYaml } from '../config/yaml-file.ts';
import { requestHealth } from '../http/request-health.ts';

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

export function healthcheckCommand(): Command {
  return new Command('healthcheck')
    .description(
      'exit 0 if the agent of a configuration file responds on this machine, otherwise 1; for container engines',
    )
    .requiredOption('--config <file>', 'configuration file of the running agent; required')
    .action(async ({ config }: { config: string }) => requestHealth(healthUrl(config)));
}
