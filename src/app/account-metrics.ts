import type { PlanFacts } from '../collectors/index.ts';
import type { Family, Sample, Source } from '../metrics/family.ts';
import { objectiveFamilies, objectiveSamples } from '../metrics/objectives.ts';
import { ownFamilies, statusSamples } from '../metrics/own.ts';
import type { AccountStatus } from '../model/status.ts';
import type { AccountClient, AccountSettings } from './account-client.ts';

/** What the agent itself says of an account: how true its data is, and what reading it costs. */
export function createAccountSource({
  settings: { name, retention, labels, objectives, budget: limits },
  accountInfo,
  client: { budget, meter, isTokenRejected },
  status,
  plan,
}: {
  readonly settings: AccountSettings;
  readonly accountInfo: Family;
  readonly client: Pick<AccountClient, 'budget' | 'meter' | 'isTokenRejected'>;
  readonly status: () => AccountStatus;
  readonly plan: () => PlanFacts | undefined;
}): Source {
  const one = (value: number | undefined): readonly Sample[] => (value === undefined ? [] : [{ labels: {}, value }]);
  return {
    account: name,
    families: [...Object.values(ownFamilies), ...Object.values(objectiveFamilies), accountInfo],
    // Freshness changes with time alone, so what is shown of it is part of the identity.
    revision: () =>
      `${meter.revision()} ${isTokenRejected()} ${budget.remaining()} ${plan()?.record?.resetAt} ${JSON.stringify(status())}`,
    samples() {
      const { plan: bought, state, dlqRetentionSeconds } = plan()?.record ?? {};
      const isRejected = isTokenRejected();
      const samples: readonly (readonly [Family, readonly Sample[]])[] = [
        ...statusSamples(status()),
        ...meter.samples(),
        ...objectiveSamples(objectives),
        [accountInfo, [{ labels: { plan: bought, state, ...labels }, value: 1 }]],
        [ownFamilies.dlqRetention, one(retention.dlq === null ? dlqRetentionSeconds : retention.dlq / 1000)],
        [ownFamilies.tokenRejected, one(isRejected === undefined ? undefined : Number(isRejected))],
        [ownFamilies.budgetLimit, one(limits.requestsPerDay)],
        [ownFamilies.budgetRemaining, one(budget.remaining())],
      ];
      return new Map(samples.map(([family, each]) => [family.name, each]));
    },
  };
}
