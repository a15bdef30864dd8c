import { alertingFamilies } from './alerting.ts';
import { autoCancelFamilies } from './auto-cancel.ts';
import type { Family } from './family.ts';
import { objectiveFamilies } from './objectives.ts';
import { accountInfoFamily, ownFamilies } from './own.ts';

/** Account families that alerts can refer to, except families of the collectors. */
export const accountFamilies: readonly Family[] = [
  ...Object.values(ownFamilies),
  ...Object.values(objectiveFamilies),
  ...Object.values(autoCancelFamilies),
];

export const accountFamilyNames: readonly string[] = [
  ...accountFamilies,
  accountInfoFamily([]),
  alertingFamilies.alerts,
  alertingFamilies.problem,
].map(({ name }) => name);
