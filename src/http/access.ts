import type { Clock } from '../kit/clock.ts';
import { fileStamp } from '../kit/file-stamp.ts';
import type { Log } from '../kit/log.ts';
import type { WebConfig } from './options.ts';

/** Reads a web-config file. Throws an Error with the position of the mistake and without secrets. */
export type ReadWebConfig = (file: string) => WebConfig;

/** Access rules from `server.webConfigFile`. */
export type Access = ReturnType<typeof createAccess>;

const NOTHING: WebConfig = { tls: undefined, users: new Map(), stamps: new Map() };

const CHECK_EVERY = 1000;

/** Returns a change that requires a restart, if any: if it applied at once, a truncated file could disable authentication. */
function forbiddenChange(before: WebConfig, after: WebConfig): string | undefined {
  if (!before.tls !== !after.tls) return `tls_server_config was ${after.tls ? 'added' : 'removed'}`;
  if (before.tls?.clientAuth !== after.tls?.clientAuth) return 'client_auth_type has changed';
  if (before.users.size > 0 && after.users.size === 0) return 'all basic_auth_users were removed';
  return undefined;
}

/** Creates access control from a web-config file. Throws if the file is invalid. */
export function createAccess(
  file: string | null,
  { read, clock, log }: { readonly read: ReadWebConfig; readonly clock: Clock; readonly log: Log },
) {
  let used = file === null ? NOTHING : read(file);
  let checkedAt = clock.monotonic();
  /** Error in the current files. */
  let broken: string | undefined;

  function check(): void {
    if (file === null || clock.monotonic() - checkedAt < CHECK_EVERY) return;
    checkedAt = clock.monotonic();
    if (broken === undefined && [...used.stamps].every(([path, stamp]) => fileStamp(path) === stamp)) return;
    try {
      const next = read(file);
      const change = forbiddenChange(used, next);
      if (change) throw new Error(`${file}: ${change}: a restart applies that`);
      used = next;
      log.info({ file }, 'the web configuration was read again and is in use');
      broken = undefined;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (message !== broken) {
        log.error({ file, error: message }, 'the web configuration cannot be used; all requests are refused');
      }
      broken = message;
    }
  }

  /** Returns the content, checked once a second; undefined while the file is invalid. All requests must then be refused. */
  return (): WebConfig | undefined => {
    check();
    return broken === undefined ? used : undefined;
  };
}
