import { z } from 'zod';
import { collectors } from '../collectors/index.ts';
import { serverOptions } from '../http/options.ts';
import { stalenessOptions } from '../scheduler/options.ts';
import { storeOptions } from '../store/options.ts';
import { logOptions, tracingOptions } from '../telemetry/options.ts';
import { accountOptions, upstreamOptions } from '../upstream/options.ts';
import { alertsOptions } from './alerts.ts';
import { autoCancelOptions } from './auto-cancel.ts';

/** The field without its default. */
function bare(field: z.core.$ZodType): z.core.$ZodType {
  return field instanceof z.ZodDefault || field instanceof z.ZodPrefault ? bare(field.unwrap()) : field;
}

/** The same shape with every key optional and no defaults, however deep. */
function overridesOf(section: z.ZodObject): z.ZodObject {
  const fields = Object.entries(section.shape).map(([key, field]) => {
    const inner = bare(field);
    const override = inner instanceof z.ZodObject ? overridesOf(inner) : (inner as z.ZodType);
    const { description } = field as z.ZodType;
    return [key, description === undefined ? override.optional() : override.optional().describe(description)];
  });
  return z.strictObject(Object.fromEntries(fields));
}

/** A section's value `base` with what `overrides` says instead, key by key where the section has sections. */
function merge<T extends object>(section: z.ZodObject, base: T, overrides: object): T {
  const merged = { ...base } as Record<string, unknown>;
  for (const [key, value] of Object.entries(overrides)) {
    if (value === undefined) continue;
    const inner = bare(section.shape[key] as z.core.$ZodType);
    merged[key] = inner instanceof z.ZodObject ? merge(inner, merged[key] as object, value as object) : value;
  }
  return merged as T;
}

type CollectorOptions = Readonly<Record<string, { readonly enabled: boolean }>>;

const collectOptions = z.strictObject(
  Object.fromEntries(
    collectors.flatMap(({ configKey, options }) =>
      configKey === null ? [] : [[configKey, options.prefault({} as never)] as const],
    ),
  ),
);

const accountWithOverrides = accountOptions.safeExtend({
  collect: overridesOf(collectOptions)
    .optional()
    .describe('Overrides of `collect` for this account, same shape: what is left out is as it stands there.'),
  upstream: overridesOf(upstreamOptions)
    .optional()
    .describe('Overrides of `upstream` for this account, same shape: what is left out is as it stands there.'),
});

const enabledIn = (collect: unknown) => Object.values(collect as CollectorOptions).some(({ enabled }) => enabled);
const NONE_ENABLED = 'must have at least one collector enabled';

/** The configuration as it is written: each section is its room's own. */
export const ConfigInput = z.strictObject({
  server: serverOptions.prefault({}).describe('The port that serves metrics and status.'),
  upstream: upstreamOptions.prefault({}).describe('How the service is reached, for all accounts.'),
  log: logOptions.prefault({}).describe('What the process says.'),
  store: storeOptions.prefault({}).describe('What is kept.'),
  accountFiles: z
    .array(z.string().min(1))
    .default([])
    .describe(
      'Files with more accounts, each a list: paths from the folder of this file, `*` for any characters: `[accounts.d/*.yaml]`.',
    ),
  accounts: z
    .array(accountWithOverrides, { error: 'must be a list of accounts' })
    .min(1, { error: 'must have at least one account' })
    .superRefine((accounts, context) => {
      const names = new Set<string>();
      for (const [index, { name }] of accounts.entries()) {
        if (names.has(name)) {
          context.addIssue({
            code: 'custom',
            path: [index, 'name'],
            message: `must be unique; ${name} is there already`,
          });
        }
        names.add(name);
      }
    })
    .describe('The accounts to watch. One entry per region: each has its own token, queue and log.'),
  collect: collectOptions
    .refine(enabledIn, { error: NONE_ENABLED })
    .prefault({})
    .describe('What is read, and how often.'),
  staleness: stalenessOptions
    .prefault({})
    .describe('When data that can no longer be refreshed is marked, and withdrawn.'),
  tracing: tracingOptions.prefault({}).describe('Traces of what the agent does, and of every message.'),
  alerts: alertsOptions.prefault({}).describe('Alerts of the agent itself, for those who run no Prometheus.'),
  autoCancel: autoCancelOptions.prefault({}).describe('Which failure callbacks are stuck, and may be cancelled.'),
});

/** The whole configuration; each account has its own `collect` and `upstream`, complete. */
export const Config = ConfigInput.transform((config, context) => {
  const accounts = config.accounts.map((account, index) => {
    const collect = merge(collectOptions, config.collect, account.collect ?? {}) as CollectorOptions;
    if (!enabledIn(collect)) {
      context.addIssue({ code: 'custom', path: ['accounts', index, 'collect'], message: NONE_ENABLED });
    }
    return { ...account, collect, upstream: merge(upstreamOptions, config.upstream, account.upstream ?? {}) };
  });
  return { ...config, accounts };
});

export type Config = z.output<typeof Config>;
