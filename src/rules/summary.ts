import { formatDuration } from '../kit/duration.ts';
import { percent } from '../kit/text.ts';
import type { Labels } from '../notify/notice.ts';
import type { AlertCondition, AlertRule } from './options.ts';

/** Formats a value with enough digits to compare it with a limit. */
const short = (value: number) => String(Number(value.toPrecision(4)));

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
  }
}

/** Returns a summary of the condition, unless the rule has a summary or description. */
export function defaultSummary({ annotations, when }: AlertRule, labels: Labels, value: number): Labels {
  const isExplained = annotations.summary !== undefined || annotations.description !== undefined;
  return isExplained ? {} : { summary: textOf(when, labels, value) };
}
