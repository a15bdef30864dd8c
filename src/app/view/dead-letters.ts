import { limitFamily } from '../../collectors/account-plan.ts';
import { OTHER } from '../../collectors/cap.ts';
import { families } from '../../collectors/dlq/families.ts';
import { breakdownFamilies, type DeadLetter, type DlqFacts } from '../../collectors/index.ts';
import type { AccountView } from '../../http/api/account.ts';
import type { Family } from '../../metrics/family.ts';
import { ownFamilies } from '../../metrics/own.ts';
import { HOUR, type Recent } from './recent.ts';
import type { Shown } from './samples.ts';
import type { Truth } from './truth.ts';
import { byLabel, isoSeconds, isoTime, orNull, wellFormed } from './values.ts';

type DeadLetters = AccountView['deadLetters'];

const mostMessages = limitFamily('dlq_size');

/** The largest first, what is beyond the cap last. */
const bySize = (a: { value: string; messages: number }, b: { value: string; messages: number }) =>
  Number(a.value === OTHER) - Number(b.value === OTHER) || b.messages - a.messages || (a.value < b.value ? -1 : 1);

function breakdowns(shown: Shown): DeadLetters['breakdowns'] {
  const beyond = byLabel(shown, families.seriesDropped, 'family');
  return Object.entries(breakdownFamilies).flatMap(([dimension, family]) => {
    const beyondCap = beyond.get(family.name);
    const [label = ''] = family.labels;
    const values = [...byLabel(shown, family, label)].map(([value, messages]) => ({ value, messages }));
    if (beyondCap === undefined && values.length === 0) return [];
    return [{ dimension, values: values.sort(bySize), beyondCap: beyondCap ?? 0 }];
  });
}

const leftOf = (of: (reason: string) => number | undefined) => ({
  expired: of('expired') ?? 0,
  removed: of('removed') ?? 0,
  unknown: of('unknown') ?? 0,
});

/** Filters with samples, and those that failed. */
function filters(shown: Shown, { failedFilters }: Truth): DeadLetters['filters'] {
  const { filterMessages, filterOldestEntered, filterEntered, filterLeft, filterProven } = families;
  const messages = byLabel(shown, filterMessages, 'filter');
  const oldest = byLabel(shown, filterOldestEntered, 'filter');
  const entered = byLabel(shown, filterEntered, 'filter');
  const proven = byLabel(shown, filterProven, 'filter');
  const left = Map.groupBy(shown.of(filterLeft), ({ labels }) => labels.filter?.toWellFormed() ?? '');
  const failures = new Map(failedFilters.map(({ name, ...failure }) => [name.toWellFormed(), failure]));
  return [...new Set([...entered.keys(), ...failures.keys()])].map(name => {
    const failure = failures.get(name);
    const reasons = left.get(name);
    return {
      name,
      messages: orNull(messages.get(name)),
      oldestEntered: isoSeconds(oldest.get(name)),
      entered: orNull(entered.get(name)),
      left: reasons ? leftOf(reason => reasons.find(({ labels }) => labels.reason === reason)?.value) : null,
      proven: proven.has(name) ? proven.get(name) === 1 : null,
      failure: failure
        ? {
            reason: failure.reason,
            message: failure.message.toWellFormed(),
            since: isoTime(failure.since),
            contradicted: failure.isContradicted,
          }
        : null,
    };
  });
}

/** `facts`: what has no place in samples. */
function kinds(shown: Shown, facts: DlqFacts | undefined): DeadLetters['kinds'] {
  const known = new Map(facts?.groups.largest.map(group => [group.id, group]));
  const samples = shown.of(families.groupMessages);
  const isOther = ({ labels }: { labels: Readonly<Record<string, string | undefined>> }) => labels.group === OTHER;
  return {
    count: orNull(shown.one(families.groups)),
    appeared: shown.one(families.groupsNew) ?? 0,
    returned: shown.one(families.groupsReturned) ?? 0,
    others: samples.find(isOther)?.value ?? 0,
    largest: samples
      .filter(sample => !isOther(sample))
      .map(({ labels: { group = '', url_host = '', response_status = '' }, value }) => ({
        id: group,
        urlHost: url_host.toWellFormed(),
        route: known.get(group)?.route.toWellFormed() ?? '',
        responseStatus: response_status,
        messages: value,
        sample: wellFormed(known.get(group)?.sample),
      })),
  };
}

function recordOf(shown: Shown, family: Family, label: string): Record<string, number> | null {
  const values = byLabel(shown, family, label);
  return values.size === 0 ? null : Object.fromEntries(values);
}

/** Its texts are cut already, and its address has no query. */
const toEntry = ({
  enteredAt,
  createdAt,
  responseStatus,
  ...texts
}: DeadLetter): DeadLetters['newestEntries'][number] => ({
  dlqId: wellFormed(texts.dlqId),
  messageId: wellFormed(texts.messageId),
  enteredAt: isoTime(enteredAt),
  createdAt: isoTime(createdAt),
  url: wellFormed(texts.url),
  method: wellFormed(texts.method),
  responseStatus: orNull(responseStatus),
  queue: wellFormed(texts.queue),
  topic: wellFormed(texts.topic),
  schedule: wellFormed(texts.schedule),
  label: wellFormed(texts.label),
  callbackState: wellFormed(texts.callbackState),
});

/** The dead-letter queue. */
export function deadLetters(truth: Truth, shown: Shown, recent: Recent, facts: DlqFacts | undefined): DeadLetters {
  const { enabled, data } = truth;
  const messages = shown.one(families.messages);
  const oldestEntered = shown.one(families.oldestEntered);
  const retention = shown.one(ownFamilies.dlqRetention);
  const left = byLabel(shown, families.left, 'reason');
  const expires = oldestEntered === undefined || retention === undefined ? undefined : oldestEntered + retention;
  return {
    enabled,
    data,
    messages: orNull(messages),
    change: recent.change(families.messages.name, messages, HOUR),
    most: orNull(shown.one(mostMessages)),
    entered: orNull(shown.one(families.entered)),
    left: left.size === 0 ? null : leftOf(reason => left.get(reason)),
    oldest: isoSeconds(shown.one(families.oldest)),
    newest: isoSeconds(shown.one(families.newest)),
    oldestEntered: isoSeconds(oldestEntered),
    retentionSeconds: orNull(retention),
    nextExpiry: isoSeconds(expires),
    filters: filters(shown, truth),
    breakdowns: breakdowns(shown),
    kinds: kinds(shown, facts),
    newestEntries: facts?.newest.map(toEntry) ?? [],
    longestEntries: facts?.longest.map(toEntry) ?? [],
    callbacks: recordOf(shown, families.callbacks, 'state'),
    suspected: orNull(shown.one(families.suspected)),
    oldestInProgress: isoSeconds(shown.one(families.oldestInProgress)),
  };
}
