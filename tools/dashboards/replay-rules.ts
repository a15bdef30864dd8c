import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { importFiles, startPrometheus } from './prometheus.ts';

/** Evaluation interval (s). */
const STEP_S = 60;

const Common = { name: z.string(), query: z.string(), labels: z.record(z.string(), z.string()).default({}) };
const Recording = z.object({ ...Common, type: z.literal('recording') });
const Alerting = z.object({
  ...Common,
  type: z.literal('alerting'),
  /** `for` and `keep_firing_for` in seconds. */
  duration: z.number(),
  keepFiringFor: z.number().default(0),
});
type Recording = z.output<typeof Recording>;
type Alerting = z.output<typeof Alerting>;

const Groups = z.object({
  data: z.object({ groups: z.array(z.object({ rules: z.array(z.union([Recording, Alerting])) })) }),
});

const Matrix = z.object({
  data: z.object({
    result: z.array(
      z.object({ metric: z.record(z.string(), z.string()), values: z.array(z.tuple([z.number(), z.string()])) }),
    ),
  }),
});

type Labels = Readonly<Record<string, string>>;

/** Time range. Both ends are in seconds since the Unix epoch and are multiples of the step. */
interface Span {
  readonly from: number;
  readonly to: number;
}

async function get<T>(schema: z.ZodType<T>, url: string): Promise<T> {
  const response = await fetch(url);
  if (!response.ok)
    throw new Error(`Prometheus responded with status ${response.status}: ${(await response.text()).slice(0, 500)}`);
  return schema.parse(await response.json());
}

async function evaluate(url: string, { query }: { readonly query: string }, { from, to }: Span) {
  const parameters = new URLSearchParams({ query, start: `${from}`, end: `${to}`, step: `${STEP_S}` });
  const { data } = await get(Matrix, `${url}/api/v1/query_range?${parameters}`);
  return data.result;
}

const selector = (name: string, labels: Labels) =>
  `${name}{${Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`)}}`;

/** Groups recording rules so that each rule depends only on series recorded by earlier groups. */
function layersOf(rules: readonly Recording[]): Recording[][] {
  const layers: Recording[][] = [];
  for (let left = [...rules]; left.length > 0; ) {
    const waiting = left.map(({ name }) => new RegExp(`(?<![\\w:])${name}(?![\\w:])`));
    const ready = left.filter(({ query }) => !waiting.some(name => name.test(query)));
    if (ready.length === 0) throw new Error(`rules wait for each other: ${left.map(({ name }) => name)}`);
    layers.push(ready);
    left = left.filter(rule => !ready.includes(rule));
  }
  return layers;
}

async function* recorded(url: string, rule: Recording, span: Span): AsyncGenerator<string> {
  for (const { metric, values } of await evaluate(url, rule, span)) {
    const { __name__: _, ...labels } = metric;
    const series = selector(rule.name, { ...labels, ...rule.labels });
    for (const [at, value] of values) yield `${series} ${value} ${at}\n`;
  }
}

/** Yields the samples of `ALERTS` and `ALERTS_FOR_STATE` that Prometheus would have recorded for a rule. */
async function* alerted(url: string, rule: Alerting, span: Span): AsyncGenerator<string> {
  const { name, duration, keepFiringFor } = rule;
  for (const { metric, values } of await evaluate(url, rule, span)) {
    const { __name__: _, ...series } = metric;
    const labels = { ...series, ...rule.labels, alertname: name };
    const times = new Set(values.map(([at]) => at));
    let [since, trueAt, isFiring] = [Number.NaN, Number.NaN, false];
    for (let at = span.from; at <= span.to; at += STEP_S) {
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
}

export interface ReplayOptions {
  /** Prometheus's data folder. */
  readonly data: string;
  readonly folder: string;
  /** Paths of the rule files. */
  readonly recording: string;
  readonly alerting: string;
  /** Start of the evaluation (ms since the Unix epoch). */
  readonly since: number;
}

/**
 * Evaluates the rules from `since` until now and imports their results. promtool cannot do this: it evaluates recording rules
 * independently of each other and ignores alerting rules. Limitation: expressions that use ALERTS do not find replayed alerts.
 */
export async function replayRules({ data, folder, recording, alerting, since }: ReplayOptions): Promise<void> {
  const [from, to] = [since, Date.now()].map(ms => Math.floor(ms / 1000 / STEP_S) * STEP_S) as [number, number];
  const nothing = { address: undefined, labels: { job: 'none' } };
  for (let layer = 0, last = 1; layer <= last; layer += 1) {
    // Start Prometheus again for each group, so that it opens the blocks of the previous groups.
    const { url, stop } = await startPrometheus(data, nothing, [recording, alerting]);
    const file = join(folder, `rules-${layer}.om`);
    try {
      const { groups } = (await get(Groups, `${url}/api/v1/rules`)).data;
      const rules = groups.flatMap(({ rules }) => rules);
      const layers = layersOf(rules.filter(rule => rule.type === 'recording'));
      last = layers.length;
      let text = '';
      for (const rule of layers[layer] ?? []) for await (const line of recorded(url, rule, { from, to })) text += line;
      if (layer === last) {
        for (const rule of rules.filter(rule => rule.type === 'alerting')) {
          for await (const line of alerted(url, rule, { from, to })) text += line;
        }
      }
      await writeFile(file, `${text}# EOF\n`);
    } finally {
      await stop();
    }
    await importFiles([file], data);
  }
}
