import { z } from 'zod';
import { autoCancelOptions, autoCancelRules } from '../auto-cancel/options.ts';
import { timeWithZone } from '../kit/cron.ts';
import { Duration, parseDuration } from '../kit/duration.ts';
import { ConfigError, type LocatedError, type Path } from './errors.ts';
import { readText } from './text-file.ts';
import { parseContent, readYaml } from './yaml-file.ts';

/** Time relative to the start of the case (ms), or since the Unix epoch (ms). */
const when = z.string({ error: "must be a time such as '+49h'" }).transform((text, context) => {
  const after = text.startsWith('+') ? parseDuration(text.slice(1)) : undefined;
  if (after !== undefined) return { after };
  const at = timeWithZone.safeParse(text);
  if (at.success) return { at: at.data };
  context.addIssue("must be a time after the start such as '+49h', or '2027-01-01T00:00:00Z'");
  return z.NEVER;
});

/** `not_listed`: the last complete walk did not list the entry. */
const VERDICTS = ['stuck', 'not_stuck', 'unknown', 'no_match', 'not_listed'] as const;

const caseFile = z.strictObject({
  autoCancel: z
    .strictObject({ idFrom: autoCancelOptions.shape.idFrom, rules: autoCancelRules })
    .optional()
    .describe('Rules to test, replacing those of --config.'),
  account: z.string().optional().describe('Account of the queue; rules of other accounts are ignored.'),
  start: timeWithZone.prefault('2027-01-01T00:00:00Z').describe('Base of relative times such as +49h.'),
  rescanEvery: Duration.optional().describe('Same as collect.dlq.rescanEvery; defaults to the account’s value or 10m.'),
  snapshots: z
    .array(
      z
        .strictObject({
          at: when,
          every: Duration.optional().describe('Interval of repeated walks; the last one is before `until`.'),
          until: when.optional(),
          complete: z
            .boolean()
            .default(true)
            .describe('Whether the walk is complete; an incomplete one proves nothing.'),
          dlq: z.array(z.looseObject({})).describe('Rows as the service lists them.'),
        })
        .refine(({ every, until }) => (every === undefined) === (until === undefined), {
          error: 'must have both every and until, or neither',
        }),
    )
    .min(1, { error: 'must not be empty' }),
  events: z.array(z.strictObject({ messageId: z.string(), at: when })).optional(),
  expect: z
    .array(
      z.strictObject({
        at: when,
        dlqId: z.string().describe('The messageId if the row has no dlqId.'),
        rule: z.string(),
        verdict: z.enum(VERDICTS, { error: `must be one of ${VERDICTS.join(', ')}` }),
        reason: z.string().optional().describe('Any reason if omitted.'),
      }),
    )
    .min(1, { error: 'must not be empty' }),
});

/** A test case for rules. Times are in milliseconds since the Unix epoch. */
export type RuleCase = ReturnType<typeof readRuleCase>;

/** Maximum number of walks per case: half a year with one walk every three minutes. */
const MAX_WALKS = 100_000;

/** Reads a test case. Throws ConfigError with all errors. */
export function readRuleCase(file: string) {
  const yaml = readYaml(readText(file), file);
  if (yaml.errors.length > 0) throw new ConfigError(yaml.errors);
  const error = (path: Path, message: string): LocatedError => ({ ...yaml.locate(path), message });
  const { data, errors } = parseContent(caseFile, yaml.content ?? {}, yaml.locate);
  if (!data) throw new ConfigError(errors);
  const { start, ...rest } = data;
  const resolve = (time: z.output<typeof when>) => (time.at === undefined ? start + time.after : time.at);
  const walks: { at: number; snapshot: number }[] = [];
  for (const [snapshot, { at, every, until }] of rest.snapshots.entries()) {
    const first = resolve(at);
    const end = until === undefined ? first + 1 : resolve(until);
    const step = every ?? 1;
    if (end <= first) throw new ConfigError([error(['snapshots', snapshot, 'until'], 'must be after at')]);
    if (walks.length + (end - first) / step > MAX_WALKS) {
      throw new ConfigError([error(['snapshots', snapshot], `is more than ${MAX_WALKS} walks`)]);
    }
    for (let at = first; at < end; at += step) walks.push({ at, snapshot });
  }
  walks.sort((a, b) => a.at - b.at);
  const twice = walks.find(({ at }, index) => at === walks[index + 1]?.at);
  if (twice) {
    const message = `two walks are at ${new Date(twice.at).toISOString()}; until is exclusive`;
    throw new ConfigError([error(['snapshots', twice.snapshot], message)]);
  }
  return {
    ...rest,
    /** In ascending order of time, without duplicates. */
    walks,
    /** Undefined if the event log is not read. */
    events: rest.events?.map(({ messageId, at }) => ({ messageId, at: resolve(at) })),
    expect: rest.expect.map(expected => ({ ...expected, at: resolve(expected.at) })),
    error,
  };
}
