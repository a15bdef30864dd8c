import { toSeconds } from '../collectors/collector.ts';
import { type PlanFacts, retentionOf } from '../collectors/index.ts';
import { createIdentities } from '../kit/identity.ts';
import type { Family, Sample, Source } from '../metrics/family.ts';
import { objectiveFamilies, objectiveSamples } from '../metrics/objectives.ts';
import { type AccountMeter, ownFamilies, statusSamples } from '../metrics/own.ts';
import type { AccountStatus } from '../model/status.ts';
import type { StatusSettings } from './account.ts';

const one = (value: number | undefined): readonly Sample[] => (value === undefined ? [] : [{ labels: {}, value }]);

interface SourceDeps {
  readonly settings: () => StatusSettings;
  readonly client: {
    readonly budget: { remaining(): number };
    readonly meter: Pick<AccountMeter, 'revision' | 'samples'>;
    isTokenRejected(): boolean | undefined;
    readonly serviceClock: { skew(): number | undefined };
  };
  readonly status: () => AccountStatus;
  readonly plan: () => PlanFacts | undefined;
}

/** Creates the source of the agent's own metrics about an account, such as the age of its data and the remaining budget. */
export function createAccountSource({ settings, client, status, plan }: SourceDeps): Source {
  const { budget, meter, isTokenRejected, serviceClock } = client;
  const identities = createIdentities();
  return {
    account: settings().name,
    families: [...Object.values(ownFamilies), ...Object.values(objectiveFamilies)],
    // Freshness changes as time passes, so the revision must include the status.
    revision: () =>
      `${meter.revision()} ${isTokenRejected()} ${serviceClock.skew()} ${budget.remaining()} ${identities(plan()?.record ?? {})} ${JSON.stringify(status())} ${identities(settings().objectives)}`,
    samples() {
      const own = settings();
      const isRejected = isTokenRejected();
      const samples: readonly (readonly [Family, readonly Sample[]])[] = [
        ...statusSamples(status()),
        ...meter.samples(),
        ...objectiveSamples(own.objectives),
        [ownFamilies.dlqRetention, one(retentionOf(own, plan()))],
        [ownFamilies.clockSkew, one(toSeconds(serviceClock.skew()))],
        [ownFamilies.tokenRejected, one(isRejected === undefined ? undefined : Number(isRejected))],
        [ownFamilies.budgetLimit, one(own.budget.requestsPerDay)],
        [ownFamilies.budgetRemaining, one(budget.remaining())],
      ];
      return new Map(samples.map(([family, each]) => [family.name, each]));
    },
  };
}

/** Creates the metric `delivery_account_info`. `family`: its labels depend on all configured accounts. */
export const createInfoSource = (
  { name, labels }: Pick<StatusSettings, 'name' | 'labels'>,
  family: Family,
  plan: () => PlanFacts | undefined,
): Source => ({
  account: name,
  families: [family],
  revision: () => plan()?.record,
  samples() {
    const { plan: bought, state } = plan()?.record ?? {};
    return new Map([[family.name, [{ labels: { plan: bought, state, ...labels }, value: 1 }]]]);
  },
});
