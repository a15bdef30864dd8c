import { formatDuration } from '../kit/duration.ts';
import type { AlertCondition, AlertRule } from './options.ts';

type Labels = Readonly<Record<string, string>>;

/** Few digits: the reader compares it with a limit. */
const short = (value: number) => String(Number(value.toPrecision(4)));
const percent = (share: number) => `${short(100 * share)} %`;

function textOf(condition: AlertCondition, { account = '', round }: Labels, value: number): string {
  switch (condition.kind) {
    case 'above':
    case 'below':
      return `${condition.metric} of ${account} is ${short(value)}, ${condition.kind} ${condition.value}.`;
    case 'growth':
      return `${condition.metric} of ${account} grew by ${short(value)} in ${formatDuration(condition.over)}.`;
    case 'age':
      return `${condition.metric} of ${account} is more than ${formatDuration(condition.above)} ago.`;
    case 'ratio': {
      const { part, whole, over, above } = condition;
      const share = `${percent(value)} of ${whole.metric} in ${formatDuration(over)}`;
      return `${part.metric} of ${account} is ${share}, above ${percent(above)}.`;
    }
    case 'stale':
      return `The data of ${condition.collector}${round === undefined ? '' : ` (round ${round})`} of ${account} is stale.`;
    case 'absent':
      return `${account} has no ${condition.metric}.`;
  }
}

/** What an alert says by itself, where its rule has no words for people. `labels`: of the alert. */
export function defaultSummary({ annotations, when }: AlertRule, labels: Labels, value: number): Labels {
  const isExplained = annotations.summary !== undefined || annotations.description !== undefined;
  return isExplained ? {} : { summary: textOf(when, labels, value) };
}
