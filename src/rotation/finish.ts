import { removeFile, replaceFile } from '../kit/durable-file.ts';
import { fingerprint, type Secret } from '../kit/secret.ts';
import type { ResetResponse } from '../upstream/rotator.ts';
import type { Intent } from './intent.ts';
import { codeOf, RotationError } from './rotation-error.ts';
import type { RotationSetup } from './setup.ts';

/** Returns the path of the file with the previous password. */
export const previousOf = (file: string) => `${file}.previous`;

/** Line about a replaced secret, or the remaining step for the operator. `failed`: another run is needed. */
interface Placed {
  readonly done?: string;
  readonly left?: string;
  readonly failed?: boolean;
}

function place(
  next: Secret,
  field: 'token' | 'password',
  record: string,
  { token, password, out }: RotationSetup,
): Placed {
  const { file, present, name, replace } = field === 'token' ? token : password;
  if (present.reveal() === next.reveal()) return { done: `The new ${field} is in ${name}.` };
  if (!file) return { left: `Set ${name} to the value of "${field}" in ${record}, and restart what uses it.` };
  try {
    if (field === 'token') {
      replace(next);
      return { done: `The new token is in ${name}; running agents read it from there.` };
    }
    // Keep the old password, because the new one may not work.
    replaceFile(previousOf(file.real), `${present.reveal()}\n`);
    replace(next);
    return { done: `The new password is in ${name}; the previous one is in ${previousOf(file.real)}.` };
  } catch (error) {
    const left = `Put the value of "${field}" in ${record} into ${file.path}, which can't be replaced (${codeOf(error)}).`;
    return { left, failed: out === undefined };
  }
}

async function leaveRecord(
  { record, token }: ResetResponse,
  resetAt: number,
  { planFile }: RotationSetup,
): Promise<string> {
  try {
    await planFile.write({ ...record, resetAt, token: fingerprint(token) });
    return `Plan and limits are in ${planFile.path}, for the agent to show.`;
  } catch (error) {
    return `Plan and limits were not saved for the agent: ${planFile.path} can't be written (${codeOf(error)}).`;
  }
}

/**
 * Replaces the old credentials with those of the stored response and returns lines for the operator. Can be repeated after any
 * interruption. Throws RotationError if a credential was not replaced, or the service rejects the new token.
 */
export async function finish(
  response: ResetResponse,
  { record, startedAt, token: old }: Intent,
  setup: RotationSetup,
): Promise<readonly string[]> {
  const placed = [place(response.token, 'token', record, setup)];
  if (response.password) placed.push(place(response.password, 'password', record, setup));
  const more = response.hasReadOnlyToken ? ', also "read_only_token",' : '';
  const lines = [
    `The token of ${setup.account} was reset: it is now ${fingerprint(response.token)}, it was ${old}.`,
    ...placed.flatMap(({ done }) => done ?? []),
    `The complete response, with every new credential,${more} is in ${record}, which only this user can read. Remove it when you no longer need it.`,
    await leaveRecord(response, Date.parse(startedAt), setup),
    ...placed.flatMap(({ left }) => left ?? []),
    ...(setup.actionToken === undefined
      ? []
      : [`The action token may also be revoked: put the value of "token" in ${record} into ${setup.actionToken}.`]),
  ];
  const fail = (why: string) => new RotationError([...lines, why].join('\n'));
  if (placed.some(({ failed }) => failed)) {
    throw fail('Or fix that and run this command again: it finishes this reset.');
  }
  removeFile(setup.intentFile);
  const verdict = await setup.check(response.token);
  if (verdict === 'refused') throw fail('But the service does not accept the new token.');
  const checked =
    verdict === 'accepted' ? 'accepts it.' : `could not be reached to check the new token (${verdict.message}).`;
  return [...lines, `The service ${checked}`];
}
