import { OTHER } from '../collectors/cap.ts';
import {
  breakdownFamilies,
  type DeadLetter,
  type DlqFacts,
  dlqFamilies,
  type SelectionFacts,
  shownFilters,
} from '../collectors/index.ts';
import { HOUR } from '../kit/duration.ts';
import { recordOf } from '../kit/record.ts';
import type { CheckInput, DataStatus } from '../rules/checks/account.ts';
import { kindChanges } from '../rules/checks/dead-letters.ts';
import type { Visible } from '../scheduler/board.ts';
import type { AccountView } from './api/account.ts';
import { isoTime, orNull } from './values.ts';

type DeadLetters = AccountView['deadLetters'];

/** Sorts the largest first and `__other__` last. */
const bySize = (a: { value: string; messages: number }, b: { value: string; messages: number }) =>
  Number(a.value === OTHER) - Number(b.value === OTHER) || b.messages - a.messages || (a.value < b.value ? -1 : 1);

function breakdowns(facts: DlqFacts | undefined): DeadLetters['breakdowns'] {
  return (Object.keys(breakdownFamilies) as (keyof typeof breakdownFamilies)[]).flatMap(dimension => {
    const counts = facts?.breakdowns.get(dimension);
    if (!counts) return [];
    const values = [...counts].map(([value, messages]) => ({ value, messages }));
    return [{ dimension, values: values.sort(bySize), beyondCap: facts?.beyondCap.get(dimension) ?? 0 }];
  });
}

const leftOf = (counted: SelectionFacts | undefined) => (counted ? { ...counted.left } : null);

function filters({ failedFilters }: DataStatus, { now, committed }: Visible<DlqFacts>): DeadLetters['filters'] {
  const filtersOf = (facts: DlqFacts | undefined) => shownFilters(facts?.selections ?? new Map());
  const [sizes, counts] = [filtersOf(now), filtersOf(committed)];
  const failures = new Map(failedFilters.map(({ name, ...failure }) => [name, failure]));
  return [...new Set([...counts.keys(), ...failures.keys()])].map(name => {
    const failure = failures.get(name);
    const { messages, oldestEntered, isProven } = sizes.get(name) ?? {};
    return {
      name,
      messages: orNull(messages),
      oldestEntered: isoTime(oldestEntered),
      entered: orNull(counts.get(name)?.entered),
      left: leftOf(counts.get(name)),
      proven: messages === undefined ? null : orNull(isProven),
      failure: failure
        ? {
            reason: failure.reason,
            message: failure.message,
            since: isoTime(failure.since),
            contradicted: failure.isContradicted,
          }
        : null,
    };
  });
}

function kinds({ now, committed }: Visible<DlqFacts>, facts: CheckInput): DeadLetters['kinds'] {
  const changes = kindChanges(facts);
  const changeOf = (by: number | undefined) =>
    by === undefined ? null : { by, overSeconds: changes?.overSeconds ?? 0 };
  const found = new Map(changes?.kinds.map(({ kind, by }) => [kind.id, changeOf(by)]));
  return {
    count: orNull(now?.kinds.count),
    appeared: committed?.kinds.appeared ?? 0,
    others: now?.kinds.others ?? 0,
    largest: (now?.kinds.largest ?? []).map(({ sample, ...kind }) => {
      return { ...kind, change: orNull(found.get(kind.id)), sample: orNull(sample) };
    }),
  };
}

const TEXTS = ['dlqId', 'messageId', 'url', 'method', 'queue', 'topic', 'schedule', 'callbackState'] as const;

/** The collector has already truncated the texts and removed the query from the URL. */
const toEntry = (entry: DeadLetter): DeadLetters['newestEntries'][number] => ({
  ...recordOf(TEXTS, name => orNull(entry[name])),
  enteredAt: isoTime(entry.enteredAt),
  createdAt: isoTime(entry.createdAt),
  label: orNull(entry.labels[0]),
  labels: [...entry.labels],
  responseStatus: orNull(entry.responseStatus),
});

/** Returns the change of the queue's size over the last hour. */
export const queueChange = ({ shown, changes }: CheckInput): DeadLetters['change'] =>
  changes.change(dlqFamilies.messages.name, shown.dlq?.now?.selections.get('all')?.messages, HOUR);

export function deadLettersView(facts: CheckInput): DeadLetters {
  const shown = facts.shown.dlq ?? { now: undefined, committed: undefined };
  const { now, committed } = shown;
  const { messages, oldestEntered } = now?.selections.get('all') ?? {};
  const counted = committed?.selections.get('all');
  const { retention } = facts;
  const truth = facts.dataOf('dlq');
  return {
    enabled: truth.enabled,
    data: truth.data,
    messages: orNull(messages),
    change: queueChange(facts),
    most: orNull(facts.maxDeadLetters),
    entered: orNull(counted?.entered),
    left: leftOf(counted),
    oldestEntered: isoTime(oldestEntered),
    retentionSeconds: retention === undefined ? null : retention / 1000,
    nextExpiry: oldestEntered === undefined || retention === undefined ? null : isoTime(oldestEntered + retention),
    filters: filters(truth, shown),
    breakdowns: breakdowns(now),
    kinds: kinds(shown, facts),
    newestEntries: now?.newest.map(toEntry) ?? [],
    longestEntries: now?.longest.map(toEntry) ?? [],
    callbacks: now?.callbacks ? { ...now.callbacks } : null,
    suspected: orNull(now?.suspected),
    oldestInProgress: isoTime(now?.oldestInProgress),
  };
}
