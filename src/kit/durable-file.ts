import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** Functions for files that are either complete or absent after a power cut. All of them block and throw system errors. */

/** Makes the current entries of a folder survive a power cut. */
export function syncFolder(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

function writeAll(handle: number, bytes: Buffer): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(handle, bytes, done);
}

const ROOT = 0;

/** Whether the file is owned by another user and is in a folder that others may write to. */
export function mayBePlanted(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return false;
  const folder = statSync(dirname(path));
  return (folder.mode & 0o022) !== 0 && ![ROOT, process.getuid?.(), folder.uid].includes(found.uid);
}

/** Copies the replaced file's owner and mode. If the owner cannot be set, the group gets no access. */
function keepOwner(handle: number, before: Stats): void {
  const own = fstatSync(handle);
  let mode = before.mode & 0o777;
  if (own.uid !== before.uid || own.gid !== before.gid) {
    try {
      fchownSync(handle, before.uid, before.gid);
    } catch {
      mode &= 0o707;
    }
  }
  fchmodSync(handle, mode);
}

/** Resolves links. Throws for a link that another user may have planted. */
export function behindLinks(path: string): string {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() && mayBePlanted(path)) {
    throw new Error('it is a link owned by another user, in a folder that others may write to');
  }
  return statSync(path, { throwIfNoEntry: false }) ? realpathSync(path) : path;
}

/**
 * Replaces a file, or the target of a link, atomically. Keeps mode and owner if permitted; a new or planted file gets mode 0600.
 * Not safe for concurrent processes.
 */
export function replaceFile(path: string, content: string): void {
  const file = behindLinks(path);
  const before = statSync(file, { throwIfNoEntry: false });
  const fresh = `${file}.being-replaced`;
  rmSync(fresh, { force: true });
  const handle = openSync(fresh, 'wx', 0o600);
  try {
    try {
      writeAll(handle, Buffer.from(content));
      if (before && !mayBePlanted(file)) keepOwner(handle, before);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    renameSync(fresh, file);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
  syncFolder(dirname(file));
}

export function removeFile(path: string): void {
  rmSync(path, { force: true });
  syncFolder(dirname(path));
}

/**
 * Creates a file with mode 0600 to append to. Throws if the file exists, or if `size` test bytes cannot be written to
 * it. Removes the test bytes.
 */
export function createAppendFile(path: string, size: number) {
  const handle = openSync(path, 'ax', 0o600);
  try {
    writeAll(handle, Buffer.alloc(size, ' '));
    fsyncSync(handle);
    ftruncateSync(handle, 0);
    fsyncSync(handle);
    syncFolder(dirname(path));
  } catch (error) {
    closeSync(handle);
    removeFile(path);
    throw error;
  }
  return {
    /** Appends bytes. They survive if the process is killed, but survive a power cut only after `close`. */
    append: (bytes: Buffer) => writeAll(handle, bytes),
    /** Syncs and closes the file. */
    close(): void {
      fsyncSync(handle);
      closeSync(handle);
    },
  };
}
