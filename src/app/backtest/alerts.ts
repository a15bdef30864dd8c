import { createEvaluation } from '../../alerts/evaluation.ts';
import { createEvidence } from '../../alerts/evidence.ts';
import { type AlertEvidence, type FirstValue, judgeAlert, type Series } from '../../alerts/judge.ts';
import { type AlertCondition, type AlertRule, isAbout, type Selector } from '../../alerts/options.ts';
import { events } from '../../collectors/events/events.ts';
import type { EventsFacts } from '../../collectors/index.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { Sample } from '../../metrics/family.ts';
import { type Objectives, objectiveSamples } from '../../metrics/objectives.ts';
import { createAlertRecord } from './alert-record.ts';
import { type DeadLetters, provenSeries } from './dead-letters.ts';
import type { Firing } from './firings.ts';
import { openTo, stricterOf, thresholdOf } from './thresholds.ts';
import { type Told, toldOf } from './told.ts';

/** How often a rule would have fired with another threshold. */
export interface Threshold {
  readonly threshold: number;
  readonly fired: number;
}

/** What became of one rule. */
export interface AlertResult {
  readonly name: string;
  /** `fired`: it surely did. `quiet`: it surely did not, but for `unknownFor`. `unknown`: the log can't tell. */
  readonly verdict: 'fired' | 'quiet' | 'unknown';
  /** Why nothing is known of it, or of the time in which it did not fire. */
  readonly because: string | undefined;
  readonly firings: readonly Firing[];
  /** How many more firings there were: of each rule, the first 10,000 that end are kept. */
  readonly firingsLeftOut: number;
  readonly kind: AlertCondition['kind'];
  /** The value that came nearest to its threshold, or farthest beyond it; undefined where there was none. Ages: seconds. */
  readonly extreme: number | undefined;
  /** In the same unit. */
  readonly threshold: number | undefined;
  /** What is known is the least that was: it may have fired earlier, longer and more often. */
  readonly isLeast: boolean;
  readonly stricter: readonly Threshold[];
  /** Milliseconds of the range in which it could not be judged. */
  readonly unknownFor: number;
}

export interface AlertBacktestDeps {
  readonly account: string;
  readonly rules: readonly AlertRule[];
  readonly objectives: Objectives;
  readonly deadLetters: DeadLetters;
  /** Milliseconds by which a round may see an entry of the dead-letter queue later than it came. */
  readonly seenAfter: number;
  /** Stands still between two evaluations. */
  readonly clock: Clock;
  readonly log: Log;
}

/** Judges the configured alerts by what was known at each time, with the agent's own code. */
export interface AlertBacktest {
  /** `facts`: undefined where the log lists nothing any more. `isWhole`: no row of what it is made from was unreadable. */
  evaluate(facts: EventsFacts | undefined, isWhole: boolean): Promise<void>;
  states(): ReadonlyMap<string, 'firing' | 'unknown'>;
  results(): readonly AlertResult[];
}

const EVENT_NAMES: ReadonlySet<string> = new Set(Object.values(events.families).map(({ name }) => name));
/** Shown by other collectors, too. */
const SHARED = events.families.seriesDropped.name;

interface Made {
  readonly of: Sample['labels'];
  readonly series: Series;
}

/** `before`: what was made last in its place. As a rule that has the same labels, and only the value is another. */
function make({ labels, value }: Sample, before?: Made): Made {
  const names = Object.keys(labels);
  if (
    before &&
    names.every(name => labels[name] === before.of[name]) &&
    names.length === Object.keys(before.of).length
  ) {
    return { of: labels, series: { ...before.series, value } };
  }
  const named = Object.entries(labels).flatMap(([name, text]) =>
    text === undefined ? [] : [[name, text.toWellFormed()] as const],
  );
  return { of: labels, series: { key: JSON.stringify(named), labels: Object.fromEntries(named), value } };
}

const NONE = { counts: [], sum: 0 };
/** No alert is about a histogram, and they are most of what there is to show. */
const withoutHistograms = (facts: EventsFacts): EventsFacts => ({
  ...facts,
  labelled: { ...facts.labelled, histograms: false },
  log: {
    ...facts.log,
    timeToDeliver: NONE,
    queueWait: NONE,
    attempt: { success: NONE, error: NONE },
    attempts: { delivered: NONE, failed: NONE, cancelled: NONE },
  },
});

/** Series by metric of what is known at a time; each is made when it is first asked for. */
function createSeries({ objectives, deadLetters, seenAfter, clock }: AlertBacktestDeps) {
  let facts: EventsFacts | undefined;
  let made = new Map<string, readonly Series[]>();
  /** Of earlier steps. */
  const before = new Map<string, readonly Made[]>();
  let samples: ReturnType<typeof events.samples> | undefined;
  const keys = new Map(Object.entries(events.families).map(([key, { name }]) => [name, key]));
  const constant = new Map(
    objectiveSamples(objectives).map(([{ name }, samples]) => [name, samples.map(sample => make(sample).series)]),
  );

  function find(metric: string): readonly Series[] | undefined {
    const key = keys.get(metric);
    if (key !== undefined && metric !== SHARED) {
      if (!facts) return undefined;
      samples ??= events.samples(withoutHistograms(facts));
      const found = (samples as Readonly<Record<string, readonly Sample[]>>)[key];
      if (!found) return undefined;
      const last = before.get(key);
      const all = found.map((sample, place) => make(sample, last?.[place]));
      before.set(key, all);
      return all.map(({ series }) => series);
    }
    return constant.get(metric) ?? provenSeries(deadLetters, metric, clock.now() - seenAfter);
  }

  return {
    show(next: EventsFacts | undefined) {
      [facts, made, samples] = [next, new Map(), undefined];
    },
    of(metric: string): readonly Series[] | undefined {
      const known = made.get(metric);
      if (known) return known;
      const found = find(metric);
      if (found) made.set(metric, found);
      return found;
    },
  };
}

/** The farther of two values in the direction in which a rule fires. */
const farther = ({ when }: AlertRule, a: number | undefined, b: number) =>
  a === undefined ? b : when.kind === 'below' ? Math.min(a, b) : Math.max(a, b);

/** As the values that are compared with it are. */
const inSeconds = ({ kind }: AlertCondition, threshold: number | undefined) =>
  threshold !== undefined && kind === 'age' ? threshold / 1000 : threshold;

const LEAST =
  'entries that have left the dead-letter queue leave no trace; those still listed prove what it was at least';
const EMPTY = 'the event log lists nothing in the range';
const NOT_WHOLE = 'nothing is listed before the range, so that its window was not whole, or rows could not be read';

/** Evidence that looks up the begin of a window once a step, however many thresholds are compared with what has come since. */
function oncePerStep(evidence: AlertEvidence): AlertEvidence & { begin(): void } {
  /** A selector is of one condition, or of its variants with other thresholds: all have the same window. */
  const known = new Map<Selector, ReadonlyMap<string, FirstValue> | undefined>();
  return {
    ...evidence,
    get now() {
      return evidence.now;
    },
    begin: () => known.clear(),
    firsts(selector, over) {
      if (!known.has(selector)) known.set(selector, evidence.firsts(selector, over));
      return known.get(selector);
    },
  };
}

interface Judged {
  readonly rule: AlertRule;
  /** Its condition with a threshold that every value passes. */
  readonly open: AlertCondition;
  readonly told: Told;
  extreme: number | undefined;
  unknownFor: number;
}

export function createAlertBacktest(deps: AlertBacktestDeps): AlertBacktest {
  const { account, clock, log } = deps;
  const all = deps.rules
    .filter(({ when }) => isAbout(when, account))
    .map(
      (rule): Judged => ({
        rule,
        open: openTo(rule.when),
        told: toldOf(rule.when),
        extreme: undefined,
        unknownFor: 0,
      }),
    );
  const told = all.filter(({ told }) => typeof told === 'string');
  const rules = told.map(({ rule }) => rule);
  const series = createSeries(deps);
  let isWhole = true;
  const facts = {
    series: series.of,
    // What is proven is the least of what was.
    isPartial: (metric: string) =>
      EVENT_NAMES.has(metric) ? !isWhole : provenSeries(deps.deadLetters, metric, 0) !== undefined,
    isDoubtful: () => false,
  };
  const evidence = createEvidence(
    rules.map(({ when }) => when),
    facts,
    clock,
  );
  const once = oncePerStep(evidence);
  const common = { judge: ({ when }: AlertRule) => judgeAlert(when, once), isDoubtful: () => false, clock, log };
  const createJudge = (rules: readonly AlertRule[]) => {
    const record = createAlertRecord(account);
    return { record, evaluate: createEvaluation({ ...common, alerts: record, rules }) };
  };
  const { record, evaluate } = createJudge(rules);
  const stricter = new Map(
    rules.map(rule => [
      rule.name,
      stricterOf(rule).map(({ threshold, rule }) => ({ threshold, name: rule.name, ...createJudge([rule]) })),
    ]),
  );
  let last: number | undefined;
  /** The log told of any time at all. */
  let hasFacts = false;

  /** What is less sensitive holds only where what is more so does. */
  async function evaluateStricter(): Promise<void> {
    const active = new Set([...record.current().alerts.values()].map(({ rule }) => rule));
    for (const [name, variants] of stricter) {
      let isActive = active.has(name);
      for (const { record, evaluate } of variants) {
        if (isActive || record.current().alerts.size > 0) await evaluate();
        isActive = record.current().alerts.size > 0;
      }
    }
  }

  function noteExtremes(): void {
    for (const one of told) {
      const judged = judgeAlert(one.open, once);
      if (judged === 'unknown') continue;
      const listed = 'atLeast' in judged ? judged.atLeast : judged;
      for (const { value } of listed) one.extreme = farther(one.rule, one.extreme, value);
    }
  }

  function resultOf({ rule, told, extreme, unknownFor }: Judged): AlertResult {
    const { name, when } = rule;
    const firings = record.firingsOf(name);
    const isLeast = told === 'at_least';
    const threshold = inSeconds(when, thresholdOf(when));
    const firingsLeftOut = record.leftOutOf(name);
    const common = { name, kind: when.kind, firings, firingsLeftOut, extreme, threshold, isLeast };
    if (typeof told === 'object') {
      return { ...common, verdict: 'unknown', because: told.unknown, stricter: [], unknownFor };
    }
    const isQuiet = !isLeast && hasFacts && (extreme !== undefined || unknownFor === 0);
    const verdict = firings.length > 0 ? 'fired' : isQuiet ? 'quiet' : 'unknown';
    // Of the least that was, nothing says that it was not more.
    const counted = isLeast || verdict !== 'fired' ? [] : (stricter.get(name) ?? []);
    return {
      ...common,
      verdict,
      because: isLeast ? LEAST : !hasFacts ? EMPTY : unknownFor > 0 ? NOT_WHOLE : undefined,
      stricter: counted.map(({ threshold, name, record }) => ({
        threshold: inSeconds(when, threshold) ?? threshold,
        fired: record.firingsOf(name).length + record.leftOutOf(name),
      })),
      unknownFor,
    };
  }

  return {
    async evaluate(next, whole) {
      series.show(next);
      isWhole = whole;
      hasFacts ||= next !== undefined;
      once.begin();
      evidence.record();
      await evaluate();
      const { unknown } = record.current();
      const now = clock.now();
      const since = now - (last ?? now);
      // That nothing is listed any more is said once, for all of them.
      for (const one of told) {
        if (unknown.has(one.rule.name) && (next || one.told === 'at_least')) one.unknownFor += since;
      }
      last = now;
      noteExtremes();
      await evaluateStricter();
    },
    states: record.states,
    results: () => all.map(resultOf),
  };
}
