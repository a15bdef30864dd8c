import { statSync } from 'node:fs';
import { fingerprint } from '../kit/secret.ts';
import { readIntent } from './intent.ts';
import { prepareCheck, type RotationDeps, type TokenAccount, type TokenSetup } from './setup.ts';

export interface TokenReport {
  readonly account: string;
  readonly fingerprint: string;
  readonly place: string;
  readonly age: string;
  readonly service: string;
  readonly unfinished: string;
  /** Whether the token works and no reset is unfinished. */
  readonly isHealthy: boolean;
}

const HOUR = 3_600_000;

function formatAge(since: number, now: number): string {
  const hours = Math.max(0, Math.floor((now - since) / HOUR));
  const age = hours < 48 ? `${hours} hours` : `${Math.floor(hours / 24)} days`;
  return `${age}, since ${new Date(since).toISOString()}`;
}

async function ageOf({ token, planFile }: TokenSetup, now: number): Promise<string> {
  const recorded = (await planFile.read().catch(() => undefined)) as
    | { readonly token?: unknown; readonly resetAt?: unknown }
    | undefined;
  const isRecorded = recorded?.token === fingerprint(token.present) && typeof recorded.resetAt === 'number';
  if (isRecorded) return `${formatAge(recorded.resetAt as number, now)}, when it was reset`;
  if (!token.file) return 'unknown';
  return `${formatAge(statSync(token.file.real).mtimeMs, now)}, when ${token.file.path} was last written`;
}

export async function checkToken(account: TokenAccount, deps: RotationDeps): Promise<TokenReport> {
  const setup = prepareCheck(account, deps);
  const { token, intentFile } = setup;
  const verdict = await setup.check(token.present);
  const intent = readIntent(intentFile);
  const isKnown = verdict === 'accepted' || verdict === 'refused';
  return {
    account: account.name,
    fingerprint: fingerprint(token.present),
    place: token.name,
    age: await ageOf(setup, deps.clock.now()),
    service: isKnown
      ? `${verdict === 'accepted' ? 'accepts' : 'rejects'} it`
      : `could not be reached: ${verdict.message}`,
    unfinished: intent ? `one that began at ${intent.startedAt}; rotate-token finishes it` : 'none',
    isHealthy: verdict === 'accepted' && !intent,
  };
}
