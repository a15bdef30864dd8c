type Path = readonly PropertyKey[];

/** By path, `*` for the number of an item. */
const STAND_INS: Readonly<Record<string, (number: PropertyKey) => unknown>> = {
  'accounts.*.name': number => `account-${String(number)}-without-a-name`,
  'accounts.*.baseUrl': number => `https://stand-in-${String(number)}.invalid`,
  'accounts.*.region': () => 'stand-in',
  'accounts.*.token': number => ({ env: `STAND_IN_${String(number)}` }),
  'autoCancel.rules.*.name': number => `rule-${String(number)}-without-a-name`,
  'autoCancel.rules.*.match': () => ({ label: { in: ['stand-in'] } }),
  'autoCancel.rules.*.expires': () => '2999-12-31',
  'autoCancel.rules.*.acceptUnverified': () => true,
  'autoCancel.rules.*.stuckWhen.inProgressFor': () => '366d',
  'autoCancel.rules.*.stuckWhen.seenFor': () => '366d',
  'alerts.rules.*.name': number => `AlertWithoutName${String(number)}`,
  'alerts.rules.*.when': () => ({ above: { metric: 'delivery_up', value: 1 } }),
  'alerts.notifiers.*.name': number => `notifier-${String(number)}-without-a-name`,
  'alerts.notifiers.*.webhook.url': () => 'https://stand-in.invalid',
};

/** What takes the place of something that is required and wrong, so that the rest of its item is checked all the same. */
export function standIn(path: Path): unknown {
  const id = path.map(step => (typeof step === 'number' ? '*' : String(step))).join('.');
  const number = path.find(step => typeof step === 'number') ?? 0;
  return Object.hasOwn(STAND_INS, id) ? STAND_INS[id]?.(number) : undefined;
}

/** Checks of these go by nothing that may have been left out beside them: a name by other items, an end by the mode. */
export const INDEPENDENT: readonly string[] = ['name', 'expires'];

/** Checks of other keys go by these: where one is wrong, its default says nothing of them. */
export const DECIDING: readonly string[] = [
  'alertmanager',
  'assumeMaxRetries',
  'enabled',
  'evidence',
  'from',
  'inProgressFor',
  'regionalBaseUrl',
  'seenFor',
  'stuckWhen',
  'webhook',
];
