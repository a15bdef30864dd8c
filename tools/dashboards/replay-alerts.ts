import { writeFile } from 'node:fs/promises';
import { z } from 'zod';

/** Between two evaluations, seconds. */
const STEP_S = 60;

const AlertRule = z.object({
  type: z.literal('alerting'),
  name: z.string(),
  query: z.string(),
  /** `for`, and `keep_firing_for`, in seconds. */
  duration: z.number(),
  keepFiringFor: z.number().default(0),
  labels: z.record(z.string(), z.string()).default({}),
});
type AlertRule = z.output<typeof AlertRule>;

const Rules = z.object({
  data: z.object({
    groups: z.array(z.object({ rules: z.array(z.union([AlertRule, z.looseObject({ type: z.string() })])) })),
  }),
});

const Ranges = z.object({
  data: z.object({
    result: z.array(
      z.object({ metric: z.record(z.string(), z.string()), values: z.array(z.tuple([z.number(), z.string()])) }),
    ),
  }),
});

async function get<T>(schema: z.ZodType<T>, url: string): Promise<T> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`Prometheus answered ${answer.status}: ${(await answer.text()).slice(0, 500)}`);
  return schema.parse(await answer.json());
}

function selector(name: string, labels: Readonly<Record<string, string>>): string {
  return `${name}{${Object.entries(labels)
    .map(([label, value]) => `${label}=${JSON.stringify(value)}`)
    .join()}}`;
}

/** The samples that Prometheus would have written for one alert that was true at these times. */
function* samplesOf(
  { name, duration, keepFiringFor, labels: own }: AlertRule,
  { __name__: _, ...series }: Readonly<Record<string, string>>,
  times: ReadonlySet<number>,
  [from, to]: readonly [number, number],
): Generator<string> {
  const labels = { ...series, ...own, alertname: name };
  let [since, trueAt, isFiring] = [Number.NaN, Number.NaN, false];
  for (let at = from; at <= to; at += STEP_S) {
    if (times.has(at)) {
      since = Number.isNaN(since) ? at : since;
      trueAt = at;
      isFiring ||= at - since >= duration;
    } else if (!isFiring || at - trueAt >= keepFiringFor) {
      [since, isFiring] = [Number.NaN, false];
    }
    if (Number.isNaN(since)) continue;
    yield `${selector('ALERTS', { ...labels, alertstate: isFiring ? 'firing' : 'pending' })} 1 ${at}\n`;
    yield `${selector('ALERTS_FOR_STATE', labels)} ${since} ${at}\n`;
  }
}

/**
 * Writes what the alerting rules that Prometheus has loaded would have left between two times, in milliseconds since the Unix
 * epoch: promtool backfills recording rules alone. What a rule asks of ALERTS itself was not there to be asked.
 */
export async function replayAlerts(url: string, since: number, until: number, file: string): Promise<void> {
  const { data } = await get(Rules, `${url}/api/v1/rules?type=alert`);
  const [from, to] = [since, until].map(ms => Math.floor(ms / 1000 / STEP_S) * STEP_S) as [number, number];
  let text = '';
  for (const rule of data.groups.flatMap(({ rules }) => rules.flatMap(each => AlertRule.safeParse(each).data ?? []))) {
    const query = new URLSearchParams({ query: rule.query, start: `${from}`, end: `${to}`, step: `${STEP_S}` });
    const { data } = await get(Ranges, `${url}/api/v1/query_range?${query}`);
    for (const { metric, values } of data.result) {
      for (const sample of samplesOf(rule, metric, new Set(values.map(([at]) => at)), [from, to])) text += sample;
    }
  }
  await writeFile(file, `${text}# EOF\n`);
}
