import { InvalidArgumentError } from 'commander';

/** Reads a command-line number from `least` to `most`. */
export const numberOption =
  (least: number, most: number) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() === '' || !(value >= least && value <= most)) {
      throw new InvalidArgumentError(`must be a number from ${least} to ${most}.`);
    }
    return value;
  };
