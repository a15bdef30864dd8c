import { readFileSync } from 'node:fs';
import { valueAt } from './parse-all.ts';
import { readYaml } from './yaml-file.ts';

/** As in http/options.ts. Not imported: this command runs twice a minute and must load little. */
const DEFAULT_LISTEN = '0.0.0.0:10922';

const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '[::]': '[::1]' };

const readContent = (file: string) => readYaml(readFileSync(file, 'utf8'), file).content;

/**
 * Where the agent of a configuration file answers `/-/healthy` on this machine. Reads three keys; one that can't be read has its
 * default, since an agent goes on with the configuration that it has when the file is broken later.
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
  // The port for probes has no TLS.
  const isTls =
    probes === undefined &&
    webConfig !== undefined &&
    valueAt(readContent(webConfig), ['tls_server_config']) !== undefined;
  return `${isTls ? 'https' : 'http'}://${LOOPBACK[host] ?? host}:${port}/-/healthy`;
}
