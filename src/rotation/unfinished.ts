import { existsSync } from 'node:fs';
import { removeFile } from '../kit/durable-file.ts';
import { fingerprint } from '../kit/secret.ts';
import { parseResetResponse, type ResetOutcome, type TokenCheckResult } from '../upstream/rotator.ts';
import { finish, previousOf } from './finish.ts';
import type { Intent } from './intent.ts';
import { received } from './response-file.ts';
import { RotationError } from './rotation-error.ts';
import type { RotationSetup } from './setup.ts';

/** Removes the intent of a reset that did not happen, and also the response file unless `isKept` is set. */
function discardIntent({ intentFile }: RotationSetup, { record }: Intent, isKept: boolean): void {
  if (!isKept) removeFile(record);
  removeFile(intentFile);
}

const keptText = (bytes: Buffer, { record }: Intent) =>
  bytes.length > 0
    ? ` The received part of the response is in ${record}: if it contains a "token", that is the new one.`
    : '';

/** Returns the message about a reset without a new token, if the old token is rejected or could not be checked. */
function openMessage(
  verdict: Exclude<TokenCheckResult, 'accepted'>,
  bytes: Buffer,
  intent: Intent,
  setup: RotationSetup,
): string {
  const kept = keptText(bytes, intent);
  if (verdict !== 'refused') {
    return `It is unknown whether the token was reset: the service could not be reached (${verdict.message}). Run this command again when the service is reachable: it does not reset the token twice.${kept}`;
  }
  const { token, worked } = intent;
  const state = worked
    ? `The old token is revoked: the service no longer accepts ${token}, and the new one was lost.`
    : `The service does not accept ${token}, and did not before, so it is unknown whether the token was reset.`;
  return `${state}${kept} To recover, take the token from the service's own console and put it into ${setup.token.name}. Or, while the management login still works, remove ${setup.intentFile} and run this command again: that resets the token again.`;
}

/** Settles an interrupted reset and returns lines for the operator. `isOver`: false if the token was never reset. */
export async function settleReset(
  intent: Intent,
  setup: RotationSetup,
): Promise<{ readonly isOver: boolean; readonly lines: readonly string[] }> {
  const { token, intentFile, check } = setup;
  const present = fingerprint(token.present);
  const began = `A reset of the token of ${intent.account} that began at ${intent.startedAt} is unfinished.`;
  const bytes = received(intent.record);
  const response = parseResetResponse(bytes);
  if (response && (await check(response.token)) !== 'refused') {
    const isKnown = [intent.token, fingerprint(response.token)].includes(present);
    if (token.file && !isKnown) {
      throw new RotationError(
        `${began} ${token.name} contains ${present}, which is neither the token that was reset, ${intent.token}, nor the new one, ${fingerprint(response.token)}; the file was not changed. The response is in ${intent.record}. Remove ${intentFile} once the right token is in place.`,
      );
    }
    return { isOver: true, lines: [began, ...(await finish(response, intent, setup))] };
  }
  const verdict = await check(token.present);
  if (verdict !== 'accepted') throw new RotationError(`${began} ${openMessage(verdict, bytes, intent, setup)}`);
  discardIntent(setup, intent, bytes.length > 0);
  const isOver = present !== intent.token;
  const state = isOver
    ? `It is settled: ${token.name} now contains another token, ${present}, and that works.`
    : `The token was not reset then: ${present} still works.`;
  return { isOver, lines: [`${began} ${state}${keptText(bytes, intent)}`] };
}

function causeOf(end: ResetOutcome, { password }: RotationSetup): string {
  if (end.end === 'answered') return 'The response of the account management is not an account record.';
  const { message, reason } = end.error;
  if (reason !== 'unauthorized') return `${message}.`;
  const previous = password.file && previousOf(password.file.real);
  const hint = previous && existsSync(previous) ? ` The password before the last reset is in ${previous}.` : '';
  return `${message}: management.username or management.password is wrong.${hint}`;
}

/** Returns the error of a failed reset, after checking the old token. */
export async function explainFailedReset(
  end: ResetOutcome,
  bytes: Buffer,
  intent: Intent,
  setup: RotationSetup,
): Promise<RotationError> {
  const { token, worked } = intent;
  const cause = causeOf(end, setup);
  const verdict = await setup.check(setup.token.present);
  if (verdict !== 'accepted' && end.end !== 'not_done') {
    return new RotationError(`${cause} ${openMessage(verdict, bytes, intent, setup)}`);
  }
  // The body of a successful response is always kept.
  const isKept = bytes.length > 0 && end.end === 'answered';
  discardIntent(setup, intent, isKept);
  const others = worked ? 'because another client has reset it' : 'as before';
  const state =
    verdict === 'accepted'
      ? `${token} still works`
      : verdict === 'refused'
        ? `the service does not accept ${token}, ${others}`
        : `${token} is unchanged, but the service could not be reached to check it (${verdict.message})`;
  return new RotationError(`${cause} The token was not reset: ${state}.${isKept ? keptText(bytes, intent) : ''}`);
}
