import { UpstreamError } from './errors.ts';

/** Where a list is found. */
export interface ListPath {
  /** The path, or the one that is asked first. */
  readonly latest: string;
  /** Reads at the path; where there are several, at the first that the service knows. That one comes first from then on. */
  first<T>(read: (path: string) => Promise<T>): Promise<T>;
}

export const listPath = (path: string): ListPath => ({ latest: path, first: read => read(path) });

/** The event log is being renamed: services have it under either name, or both. */
const EVENT_PATHS = ['/v2/events', '/v2/logs'];

const isNoSuchPath = (error: unknown) =>
  error instanceof UpstreamError && (error.status === 404 || error.status === 405);

/** `setting`: `auto`, or the path. What was found is known to this process alone: the next one asks once more. */
export function eventsPath(setting: string): ListPath {
  if (setting !== 'auto') return listPath(setting);
  let paths: readonly string[] = EVENT_PATHS;
  return {
    get latest() {
      return paths[0] as string;
    },
    async first(read) {
      let unknown: unknown;
      for (const path of paths) {
        try {
          const found = await read(path);
          paths = [path, ...EVENT_PATHS.filter(other => other !== path)];
          return found;
        } catch (error) {
          if (!isNoSuchPath(error)) throw error;
          unknown ??= error;
        }
      }
      throw unknown;
    },
  };
}
