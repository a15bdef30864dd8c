import { InvalidArgumentError } from 'commander';
import { Duration } from '../kit/duration.ts';

/** Reads a duration such as `6h` as milliseconds. */
export function durationOption(text: string): number {
  const { data, error } = Duration.safeParse(text);
  if (data === undefined) throw new InvalidArgumentError(`${error?.issues[0]?.message}.`);
  return data;
}
