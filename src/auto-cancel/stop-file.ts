import { lstatSync } from 'node:fs';

/** Whether a stop file is there, or may be: what hides it, such as a folder that may not be read, does not undo it. */
export function mayBeThere(file: string): boolean {
  try {
    lstatSync(file);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}
