import { AGENT_TIME } from '../collectors/collector.ts';
import { enabledRounds } from '../collectors/index.ts';
import type { Source } from '../metrics/family.ts';
import { createAccountMeter, ownFamilies, statusSamples } from '../metrics/own.ts';
import type { AccountStatus } from '../model/status.ts';
import type { ShownAccount, StatusSettings } from './account.ts';

/** Returns a status in which every round has failed and is stale. `last`: the status of the account's last session, if any. */
function failedStatus(
  { name, collect }: StatusSettings,
  error: unknown,
  last: AccountStatus | undefined,
): AccountStatus {
  const failure = { reason: 'store', message: `the account could not be opened: ${String(error)}` };
  const dataAt = (collector: string, round: string) =>
    last?.collectors.find(each => each.collector === collector)?.rounds.find(each => each.round === round)?.dataAt;
  return {
    account: name,
    up: false,
    collectors: [...enabledRounds(collect)].map(([collector, rounds]) => ({
      collector,
      withdrawn: false,
      rounds: Object.entries(rounds).map(([round, { every }]) => ({
        round,
        every,
        success: false,
        complete: false,
        dataAt: dataAt(collector, round),
        consecutiveFailures: 1,
        failure,
        stale: true,
      })),
    })),
  };
}

/** Returns an account that could not be opened, with metrics such as `delivery_up` 0. `last`: its last session, if any. */
export function failedAccount(
  settings: StatusSettings,
  { error, since }: { readonly error: unknown; readonly since: number },
  last: (ShownAccount & { readonly facts: readonly Source[] }) | undefined,
): { readonly account: ShownAccount; readonly sources: readonly Source[] } {
  const { name } = settings;
  const status = failedStatus(settings, error, last?.status());
  const source: Source = {
    account: name,
    families: Object.values(ownFamilies),
    revision: () => status,
    samples: () => new Map(statusSamples(status).map(([family, samples]) => [family.name, samples])),
  };
  const account: ShownAccount = {
    name,
    status: () => status,
    shown: () => last?.shown() ?? {},
    meter: last?.meter ?? createAccountMeter({ requests: [], bytes: [], collectors: [] }),
    budgetRemaining: () => last?.budgetRemaining(),
    serviceClock: last?.serviceClock ?? AGENT_TIME,
    isTokenKnown: () => last?.isTokenKnown() ?? false,
    isTokenRejected: () => last?.isTokenRejected(),
    history: last?.history ?? { recent: () => [], read: async () => ({ times: [], series: new Map() }) },
    notOpened: { reason: String(error), since },
  };
  return { account, sources: [...(last?.facts ?? []), source] };
}
