import { InvalidArgumentError } from 'commander';

/** Reads a whole command-line number from `least` to `most`. */
export const integerOption =
  (least: number, most: number) =>
  (text: string): number => {
    const value = numberOption(least, most)(text);
    if (!Number.isInteger(value)) throw new InvalidArgumentError('must be a whole number.');
    return value;
  };

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
