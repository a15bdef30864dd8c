import { accessSync, constants, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { replaceFile } from '../kit/durable-file.ts';
import { durationText } from '../kit/duration.ts';
import { failureOf } from '../kit/failure.ts';
import type { Runtime } from '../kit/runtime.ts';
import { fingerprint, nameOf, type Secret } from '../kit/secret.ts';
import { escapedJson } from '../kit/text.ts';
import type { RecordedAccount } from '../model/account.ts';
import { type AccountOptions, addressesOf } from '../upstream/options.ts';
import * as upstream from '../upstream/rotator.ts';
import {
  createResponseFile,
  findReset,
  findSecret,
  forget,
  RotationError,
  replaceSecret,
  type StartedReset,
} from './files.ts';

export { RotationError } from './files.ts';

export interface RotationDeps extends Pick<Runtime, 'env' | 'clock' | 'random'> {
  readonly account: AccountOptions;
  /** Opens new connections, because requests of a reset must not reuse open ones. */
  connect(): upstream.Connection;
  /** Plan and limits from the last reset, which the agent reads. */
  readonly planFile: { readonly path: string; read(): Promise<unknown>; write(record: RecordedAccount): Promise<void> };
  /** File for the response; default: next to the token. */
  readonly out: string | undefined;
  /** Locks a path for this command. Throws RotationError. */
  lock(path: string): void;
  confirm(question: string): Promise<boolean>;
  /** Shows credentials to the operator. Never throws. */
  handOver(text: string): void;
  /** Never throws. */
  say(line: string): void;
}

const iso = (time: number) => new Date(time).toISOString();

const isSame = (one: Secret, other: Secret) => one.reveal() === other.reveal();

function prepare(deps: RotationDeps) {
  const { account, connect, env } = deps;
  const token = findSecret(account.token, env, `the token of ${account.name}`);
  const out = deps.out === undefined ? undefined : resolve(deps.out);
  const beside = token.file?.real ?? resolve(account.name);
  const isWritable = !failureOf(() => accessSync(dirname(beside), constants.W_OK));
  const mark = upstream.resetMark(out && !(token.file && isWritable) ? join(dirname(out), account.name) : beside);
  const check = upstream.createTokenCheck({ ...deps, ...connect(), addresses: addressesOf(account) });
  return { ...deps, name: account.name, token, old: fingerprint(token.present), out, mark, check };
}

function prepareReset(deps: RotationDeps) {
  const setup = prepare(deps);
  const { management, paths, name } = deps.account;
  const missing = `${name} has no management section; rotate-token needs { baseUrl, username, password } there`;
  if (!management) throw new RotationError(missing, true);
  const password = findSecret(management.password, deps.env, `the management password of ${name}`);
  const login = { ...management, path: paths.rotateToken, password: password.present };
  return { ...setup, management, password, rotator: upstream.createRotator({ ...login, ...deps.connect() }) };
}

type Setup = ReturnType<typeof prepareReset>;

/** Reports the state of a token. Throws RotationError if the token does not work, or if a reset is unfinished. */
export async function checkToken(deps: RotationDeps): Promise<void> {
  const { name, token, old, mark, check, planFile, clock, say } = prepare(deps);
  const verdict = await check(token.present);
  const found = findReset(mark);
  const service = { accepted: 'accepts it', refused: 'rejects it' };
  const plan = (await planFile.read().catch(() => undefined)) as Partial<RecordedAccount> | undefined;
  const resetAt = plan?.token === old ? plan.resetAt : undefined;
  const since = resetAt ?? token.file?.writtenAt;
  const event = resetAt === undefined ? `${token.name} was last written` : 'it was reset';
  const age = since && `${durationText((clock.now() - since) / 1000)}, since ${iso(since)}, when ${event}`;
  say(`account      ${name}`);
  say(`token        ${old}, in ${token.name}`);
  say(`age          ${age ?? 'unknown'}`);
  say(`the service  ${typeof verdict === 'string' ? service[verdict] : `could not check it: ${verdict.message}`}`);
  say(`unfinished   ${found ? `one that began at ${iso(found.startedAt)}; rotate-token finishes it` : 'none'}`);
  if (verdict !== 'accepted' || found) throw new RotationError(`the token of ${name} needs attention: see above`);
}

/** Replaces a secret. Returns the remaining step if that fails. `where`: where the response is stored. */
function place(field: 'token' | 'password', next: Secret, where: string, { say, ...setup }: Setup): string | undefined {
  const { file, present, name } = setup[field];
  const value = `the value of "${field}" in ${where}`;
  const previous = `${file?.real}.previous`;
  const isInPlace = isSame(present, next);
  const failure = failureOf(() => {
    if (!file || isInPlace) return;
    // Keep the old password, because the new one may not work.
    if (field === 'password') replaceFile(previous, `${present.reveal()}\n`);
    replaceSecret(file.path, next);
  });
  const more = field === 'token' ? 'running agents read it from there' : `the previous one is in ${previous}`;
  if (failure) return `Put ${value} into ${file?.path}, which can't be replaced (${failure}).`;
  if (isInPlace) say(`The new ${field} is in ${name}.`);
  else if (file) say(`The new ${field} is in ${name}; ${more}.`);
  else say(`Set ${name} to ${value}, and restart every process that uses it.`);
  return undefined;
}

/**
 * Puts the new credentials in place and checks the token. Can be repeated after any interruption. Throws RotationError if the
 * reset needs attention.
 */
async function finish(response: upstream.ResetResponse, reset: StartedReset, setup: Setup): Promise<void> {
  const { account, name, token, old, mark, out, planFile, say } = setup;
  const { record, startedAt, failure } = reset;
  const where = failure ? 'the response above' : record;
  const next = fingerprint(response.token);
  const was = isSame(token.present, response.token) ? '' : `, it was ${old}`;
  say(`The token of ${name} was reset: it is now ${next}${was}.`);
  const steps = [place('token', response.token, where, setup)];
  if (response.password) steps.push(place('password', response.password, where, setup));
  const left = steps.filter(step => step !== undefined);
  const stored = failure
    ? `${record} does not contain the response (${failure}): save the credentials above now.`
    : `The complete response, with every new credential, is in ${record}, which only this user can read. Remove it when you no longer need it.`;
  say(stored);
  const plan = { ...response.record, resetAt: Math.floor(startedAt), token: next };
  const unsaved = await planFile.write(plan).catch((error: Error) => error.message);
  say(
    unsaved ? `Plan and limits were not saved for the agent: ${unsaved}.` : `Plan and limits are in ${planFile.path}.`,
  );
  const action = account.actionToken && nameOf(account.actionToken, `the action token of ${name}`);
  if (action) say(`Perhaps the action token is also revoked: put the value of "token" in ${where} into ${action}.`);
  const isUnfinished = left.length > 0 && out === undefined;
  if (isUnfinished && !failure) {
    throw new RotationError([...left, 'Or fix the cause and run this command again to finish this reset.'].join('\n'));
  }
  left.forEach(say);
  if (!isUnfinished) forget(mark);
  const verdict = await setup.check(response.token);
  if (verdict === 'refused') throw new RotationError('The service does not accept the new token.');
  say(verdict === 'accepted' ? 'The service accepts it.' : `The new token could not be checked (${verdict.message}).`);
  if (failure) throw new RotationError(`The token was reset, but ${record} can't be written (${failure}).`);
}

/**
 * Settles a reset with an unknown outcome. Returns false if this run must still reset the token. Throws RotationError if no
 * token is known to work. `what`: start of the message. `isKept`: whether to keep the response even if the old token still works.
 * `worked`: whether the service accepted the old token before; undefined if unknown.
 */
async function settle(reset: StartedReset, setup: Setup, what: string, isKept: boolean, worked?: boolean) {
  const { token, old, mark, check, say } = setup;
  const { record, bytes, failure, startedAt } = reset;
  const isReplaced = worked === undefined && (token.file?.writtenAt ?? Number.POSITIVE_INFINITY) > startedAt;
  const response = upstream.parseResetResponse(bytes);
  if (response && (await check(response.token)) !== 'refused') {
    if (token.file && isReplaced && !isSame(token.present, response.token)) {
      throw new RotationError(
        `${what} ${token.name} was written after the reset began and contains ${old}, not the new token ${fingerprint(response.token)}; this command did not change the file. The response is in ${record}. Remove ${mark} once the right token is in place.`,
      );
    }
    say(what);
    await finish(response, reset, setup);
    return true;
  }
  const verdict = await check(token.present);
  const part = ` The received part of the response is in ${record}: if it contains a "token", that is the new one.`;
  const kept = bytes.length > 0 && !failure && (isKept || verdict !== 'accepted') ? part : '';
  if (verdict === 'accepted') {
    forget(mark, ...(kept ? [] : [record]));
    const state = isReplaced
      ? `This run ends the reset, because ${token.name} now contains ${old}, which works. Run this command again to reset that token.`
      : `The token was not reset: ${old} still works.`;
    if (worked !== undefined) throw new RotationError(`${what} ${state}${kept}`);
    say(`${what} ${state}${kept}`);
    return isReplaced;
  }
  if (typeof verdict !== 'string') {
    const unknown = `It is unknown whether the token was reset: the old one could not be checked (${verdict.message}).`;
    throw new RotationError(
      `${what} ${unknown}${kept} Run this command again when the service responds: it does not reset the token twice.`,
    );
  }
  const state =
    worked === false
      ? `The service does not accept ${old}, and did not before this reset, so it is unknown whether the token was reset.`
      : `The old token is revoked: the service no longer accepts ${old}, and ${worked ? 'the new one was lost' : 'no new one is stored'}.`;
  throw new RotationError(
    `${what} ${state}${kept} To recover, take the token from the service's own console and put it into ${token.name}. Or, while the management login still works, remove ${mark} and run this command again: that resets the token again.`,
  );
}

/** Resets the token. `worked`: whether the service accepts the present token. */
async function reset(setup: Setup, worked: boolean): Promise<void> {
  const { name, token, old, clock, out, mark, rotator, handOver } = setup;
  const startedAt = clock.now();
  const record = out ?? `${resolve(token.file?.path ?? name)}.rotated-${iso(startedAt).replaceAll(/[-:]/g, '')}.json`;
  const file = createResponseFile(record, mark);
  let failure: string | undefined;
  const outcome = await rotator.reset(part => {
    failure ??= failureOf(() => file.append(part));
  });
  const { bytes } = outcome;
  failure ??= failureOf(() => {
    file.close();
    if (!readFileSync(record).equals(bytes)) throw new Error('another process changed it');
  });
  const isAnswered = outcome.end === 'answered';
  const { message = '', reason = '' } = isAnswered ? {} : outcome.error;
  const cause = reason === 'unauthorized' ? ': management.username or management.password is wrong.' : '.';
  // A gateway may replace the status of a successful reset, so a response with a token, even inside a string, is kept.
  const mayHaveToken = /token\\*"\s*:/.test(bytes.toString('latin1'));
  if (outcome.end === 'not_done' && !mayHaveToken) {
    forget(mark, record);
    const state = worked ? `${old} still works` : `the service does not accept ${old}, as before`;
    throw new RotationError(`${message}${cause} The token was not reset: ${state}.`);
  }
  if (failure && bytes.length > 0) {
    const text = escapedJson(bytes.toString('utf8'));
    handOver(`${record} can't be written (${failure}). The response, which may contain new credentials:\n${text}\n`);
  }
  const started = { record, startedAt, bytes, failure };
  const response = upstream.parseResetResponse(bytes);
  if (response && isAnswered) return finish(response, started, setup);
  const what = isAnswered ? 'The response of the account management is not an account record.' : `${message}${cause}`;
  await settle(started, setup, what, isAnswered || mayHaveToken, worked);
}

/**
 * Resets an account's token. The response is written to disk as it arrives, and the next run finishes an interrupted reset.
 * Throws RotationError with the state and the next step.
 */
export async function rotateToken(deps: RotationDeps): Promise<void> {
  const setup = prepareReset(deps);
  const { name, token, old, password, management, mark, out, check } = setup;
  deps.lock(mark);
  const found = findReset(mark);
  const began = `A reset of the token of ${name} that began at ${found && iso(found.startedAt)} is unfinished.`;
  if (found && (await settle(found, setup, began, true))) return;
  const verdict = await check(token.present);
  if (typeof verdict !== 'string') {
    throw new RotationError(
      `The current token could not be checked (${verdict.message}); nothing was sent. Run this command again when the service responds: \`doctor\` shows what is wrong.`,
    );
  }
  for (const { file, present } of [token, password]) {
    const failure = file && failureOf(() => replaceSecret(file.path, present));
    if (!failure || out !== undefined) continue;
    throw new RotationError(
      `${file.path} can't be replaced (${failure}): its folder must be writable, and the file must not be a mount. Nothing was sent. With --out FILE the new credentials go to a file in another folder, and you put them in place`,
    );
  }
  const fate = verdict === 'accepted' ? 'stops working at once' : 'is already rejected by the service';
  const question = `Reset the token of ${name} at ${management.baseUrl}? The current one, ${old} in ${token.name}, ${fate}.`;
  if (!(await deps.confirm(question))) throw new RotationError('Not confirmed; nothing was sent.');
  await reset(setup, verdict === 'accepted');
}
