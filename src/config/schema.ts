import { z } from 'zod';
import { collectors } from '../collectors/index.ts';
import { serverOptions } from '../http/options.ts';
import { stalenessOptions } from '../scheduler/options.ts';
import { storeOptions } from '../store/options.ts';
import { logOptions } from '../telemetry/options.ts';
import { accountOptions, upstreamOptions } from '../upstream/options.ts';

const collectOptions = z.strictObject(
  Object.fromEntries(collectors.map(({ configKey, options }) => [configKey, options.prefault({} as never)])),
);

/** The whole configuration: each section is its room's own. */
export const Config = z.strictObject({
  server: serverOptions.prefault({}).describe('The port that serves metrics and status.'),
  upstream: upstreamOptions.prefault({}).describe('How the service is reached, for all accounts.'),
  log: logOptions.prefault({}).describe('What the process says.'),
  store: storeOptions.prefault({}).describe('What is kept.'),
  accounts: z
    .array(accountOptions, { error: 'must be a list of accounts' })
    .min(1, { error: 'must have at least one account' })
    .superRefine((accounts, context) => {
      accounts.forEach(({ name }, index) => {
        if (accounts.findIndex(account => account.name === name) !== index) {
          context.addIssue({
            code: 'custom',
            path: [index, 'name'],
            message: `must be unique; ${name} is there already`,
          });
        }
      });
    })
    .describe('The accounts to watch. One entry per region: each has its own token, queue and log.'),
  collect: collectOptions
    .refine(collect => Object.values(collect).some(options => (options as { enabled: boolean }).enabled), {
      error: 'must have at least one collector enabled',
    })
    .prefault({})
    .describe('What is read, and how often.'),
  staleness: stalenessOptions
    .prefault({})
    .describe('When data that can no longer be refreshed is marked, and withdrawn.'),
});

export type Config = z.output<typeof Config>;
