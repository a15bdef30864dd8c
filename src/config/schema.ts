import { z } from 'zod';
import { autoCancelOptions } from '../auto-cancel/options.ts';
import { collectOptions, isAnyEnabled, schedulesOptions } from '../collectors/index.ts';
import { serverOptions } from '../http/options.ts';
import { uniqueNames } from '../kit/unique-names.ts';
import { objectivesOptions } from '../metrics/objectives.ts';
import { heartbeatOptions } from '../notify/options.ts';
import { alertsOptions } from '../rules/options.ts';
import { stalenessOptions } from '../scheduler/options.ts';
import { storeOptions } from '../store/options.ts';
import { logOptions, tracingOptions } from '../telemetry/options.ts';
import { accountOptions, upstreamOptions } from '../upstream/options.ts';

const accountWithOverrides = accountOptions.safeExtend({
  collect: overridesOf(collectOptions).optional().describe('Overrides of `collect`. Omitted keys are inherited.'),
  upstream: overridesOf(upstreamOptions).optional().describe('Overrides of `upstream`. Omitted keys are inherited.'),
  objectives: overridesOf(objectivesOptions)
    .optional()
    .describe('Overrides of `objectives`. Omitted keys are inherited.'),
});

const NONE_ENABLED = 'must have at least one collector enabled';

/** The configuration file. Each module defines its own section. */
export const ConfigInput = z.strictObject({
  server: serverOptions.prefault({}).describe('The HTTP server for metrics, status and probes.'),
  upstream: upstreamOptions.prefault({}).describe('Connections to the service, for all accounts.'),
  log: logOptions.prefault({}).describe('The log of the agent.'),
  store: storeOptions.prefault({}).describe('Storage of state across restarts.'),
  accountFiles: z
    .array(z.string().min(1))
    .default([])
    .describe(
      'Glob patterns of files with further accounts, relative to the configuration file: `[accounts.d/*.yaml]`. Each file is a YAML list.',
    ),
  accounts: z
    .array(accountWithOverrides, { error: 'must be a list of accounts' })
    .min(1, { error: 'must have at least one account' })
    .superRefine(uniqueNames)
    .describe(
      'Accounts to watch. Add one entry per region, because each region has a separate token, dead-letter queue and event log.',
    ),
  collect: collectOptions
    .refine(isAnyEnabled, { error: NONE_ENABLED })
    .prefault({})
    .describe('Settings of each collector.'),
  objectives: objectivesOptions
    .prefault({})
    .describe('Objectives for messages, used in metrics, alert rules and dashboards.'),
  schedules: schedulesOptions
    .superRefine(uniqueNames)
    .default([])
    .describe('Recurring deliveries. For each expected start, the agent looks for a message in the event log.'),
  staleness: stalenessOptions
    .prefault({})
    .describe('When outdated data is marked as stale, and when stale data is withdrawn (no longer exposed).'),
  tracing: tracingOptions
    .prefault({})
    .describe('OpenTelemetry traces of the agent, and spans of messages: see docs/integrations.md#traces.'),
  alerts: alertsOptions.prefault({}).describe('Alerts that the agent evaluates and sends: see docs/alerts.md.'),
  heartbeat: heartbeatOptions
    .nullable()
    .default(null)
    .describe(
      'A dead man’s switch, such as healthchecks.io. The agent requests its URL regularly. While data is stale or a token is rejected, the agent appends `/fail` to the path.',
    ),
  autoCancel: autoCancelOptions
    .prefault({})
    .describe('Rules that find stuck failure callbacks and may cancel them: see docs/auto-cancel.md.'),
});

/** Replaces lone surrogates, which UTF-8 cannot encode. An escape such as `\ud800` in the file creates them. */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(wellFormed);
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, wellFormed(inner)]));
}

/** The complete configuration. Sections of an account include inherited values. */
export const Config = z.preprocess(wellFormed, ConfigInput).transform((config, context) => {
  const accounts = config.accounts.map((account, index) => {
    const collect = merge(collectOptions, config.collect, account.collect ?? {});
    if (!isAnyEnabled(collect)) {
      context.addIssue({ code: 'custom', path: ['accounts', index, 'collect'], message: NONE_ENABLED });
    }
    const upstream = merge(upstreamOptions, config.upstream, account.upstream ?? {});
    const objectives = merge(objectivesOptions, config.objectives, account.objectives ?? {});
    return { ...account, collect, upstream, objectives };
  });
  return { ...config, accounts };
});

export type Config = z.output<typeof Config>;
export type AccountSettings = Config['accounts'][number];

function bare(field: z.core.$ZodType): z.core.$ZodType {
  return field instanceof z.ZodDefault || field instanceof z.ZodPrefault ? bare(field.unwrap()) : field;
}

/** Makes all keys of a schema optional, without defaults, at every depth. */
function overridesOf(section: z.ZodObject): z.ZodObject {
  const fields = Object.entries(section.shape).map(([key, field]) => {
    const inner = bare(field);
    const override = inner instanceof z.ZodObject ? overridesOf(inner) : (inner as z.ZodType);
    const { description } = field as z.ZodType;
    return [key, description === undefined ? override.optional() : override.optional().describe(description)];
  });
  return z.strictObject(Object.fromEntries(fields));
}

/** Merges `overrides` into `base`, key by key in nested sections. */
function merge<T extends object>(section: z.ZodObject, base: T, overrides: object): T {
  const merged = { ...base } as Record<string, unknown>;
  for (const [key, value] of Object.entries(overrides)) {
    if (value === undefined) continue;
    const inner = bare(section.shape[key] as z.core.$ZodType);
    merged[key] = inner instanceof z.ZodObject ? merge(inner, merged[key] as object, value as object) : value;
  }
  return merged as T;
}
