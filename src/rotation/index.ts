import { removeFile } from '../kit/durable-file.ts';
import { fingerprint } from '../kit/secret.ts';
import { parseResetResponse } from '../upstream/rotator.ts';
import { finish } from './finish.ts';
import { type Intent, readIntent, writeIntent } from './intent.ts';
import { createKeeper, type Keeper, probe } from './response-file.ts';
import { codeOf, RotationError } from './rotation-error.ts';
import { prepareReset, type ResetAccount, type RotationDeps, type RotationSetup } from './setup.ts';
import { explainFailedReset, settleReset } from './unfinished.ts';

export { checkToken, type TokenReport } from './check.ts';
export { RotationError } from './rotation-error.ts';
export type { ResetAccount, RotationDeps, TokenAccount } from './setup.ts';

export interface RotateDeps extends RotationDeps {
  confirm(question: string): Promise<boolean>;
  /** Runs `work` while ignoring all signals that can be ignored. */
  uninterrupted<T>(work: () => Promise<T>): Promise<T>;
  say(line: string): void;
}

/**
 * Resets an account's token. The response is written to disk as soon as it arrives, and the next run finishes an interrupted
 * reset. Throws RotationError with the state and the next step.
 */
export async function rotateToken(account: ResetAccount, deps: RotateDeps): Promise<void> {
  const say = (lines: readonly string[]) => {
    for (const line of lines) deps.say(line);
  };
  const setup = prepareReset(account, deps);
  const unfinished = readIntent(setup.intentFile);
  if (unfinished) {
    const { isOver, lines } = await settleReset(unfinished, setup);
    say(lines);
    if (isOver) return;
  }
  const intent = await confirmReset(setup, deps);
  say(await deps.uninterrupted(() => reset(intent, setup)));
}

/**
 * Checks that the files of the secrets can be replaced. If `out` is set, ignores failures, because the operator can replace the
 * secrets.
 */
function rehearse({ token, password, out }: RotationSetup): void {
  for (const place of [token, password].filter(({ file }) => file)) {
    try {
      place.rehearse();
    } catch (error) {
      if (out === undefined) throw error;
    }
  }
}

/** Checks the preconditions of a reset, then asks for confirmation. */
async function confirmReset(setup: RotationSetup, { clock, confirm }: RotateDeps): Promise<Intent> {
  const { account, token, managementUrl } = setup;
  const now = clock.now();
  const record = setup.newRecord(now);
  probe(record);
  rehearse(setup);
  const present = fingerprint(token.present);
  const worked = (await setup.check(token.present)) !== 'refused';
  const fate = worked ? 'stops working at once' : 'is already rejected by the service';
  const question = `Reset the token of ${account} at ${managementUrl}? The current one, ${present} in ${token.name}, ${fate}.`;
  if (!(await confirm(question))) throw new RotationError('Not confirmed; nothing was sent.');
  return { startedAt: new Date(now).toISOString(), account, token: present, worked, record };
}

/** Writes the intent to disk and reserves space for the response. */
function begin(intent: Intent, { intentFile }: RotationSetup): Keeper {
  try {
    writeIntent(intentFile, intent);
    return createKeeper(intent.record);
  } catch (error) {
    removeFile(intentFile);
    throw new RotationError(`${intent.record} can't be written (${codeOf(error)}); nothing was sent`);
  }
}

async function reset(planned: Intent, setup: RotationSetup): Promise<readonly string[]> {
  const keeper = begin(planned, setup);
  const end = await setup.rotator.reset(keeper.keep);
  const { bytes, record } = keeper.end();
  const intent = { ...planned, record };
  if (record !== planned.record) writeIntent(setup.intentFile, intent);
  const response = end.end === 'not_done' ? undefined : parseResetResponse(bytes);
  if (response && (end.end === 'answered' || (await setup.check(response.token)) !== 'refused')) {
    return finish(response, intent, setup);
  }
  throw await explainFailedReset(end, bytes, intent, setup);
}
