import { z } from 'zod';
import { autoCancelOptions } from '../auto-cancel/options.ts';
import { type CollectOptions, collectOptions } from '../collectors/index.ts';
import { serverOptions } from '../http/options.ts';
import { stalenessOptions } from '../scheduler/options.ts';
import { storeOptions } from '../store/options.ts';
import { logOptions, tracingOptions } from '../telemetry/options.ts';
import { accountOptions, upstreamOptions } from '../upstream/options.ts';
import { alertsOptions } from './alerts.ts';
import { merge, overridesOf } from './overrides.ts';

const accountWithOverrides = accountOptions.safeExtend({
  collect: overridesOf(collectOptions)
    .optional()
    .describe('Overrides of `collect` for this account, same shape: what is left out is as it stands there.'),
  upstream: overridesOf(upstreamOptions)
    .optional()
    .describe('Overrides of `upstream` for this account, same shape: what is left out is as it stands there.'),
});

const enabledIn = (collect: CollectOptions) => Object.values(collect).some(({ enabled }) => enabled);
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
    const collect = merge(collectOptions, config.collect, account.collect ?? {});
    if (!enabledIn(collect)) {
      context.addIssue({ code: 'custom', path: ['accounts', index, 'collect'], message: NONE_ENABLED });
    }
    return { ...account, collect, upstream: merge(upstreamOptions, config.upstream, account.upstream ?? {}) };
  });
  return { ...config, accounts };
});

export type Config = z.output<typeof Config>;
