import { collectors } from '../../src/collectors/index.ts';

/** Returns the section `collect` that disables all collectors except the listed ones, such as `dlq`. */
export const collectOnly = (...enabled: string[]): Readonly<Record<string, { enabled: boolean }>> =>
  Object.fromEntries(
    collectors
      .filter(({ configKey }) => !enabled.includes(configKey))
      .map(({ configKey }) => [configKey, { enabled: false }]),
  );

/** The part of the section `collect` that disables all collectors whose data a service may lack. */
export const WITHOUT_OPTIONAL = collectOnly(...collectors.filter(each => !each.isOptional).map(each => each.configKey));
