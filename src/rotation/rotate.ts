import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { LoadedConfig } from '../config/load.ts';
import { createClosing } from '../kit/closing.ts';
import { removeFile, replaceFile, reserveFile, syncFolder } from '../kit/durable-file.ts';
import { fingerprint } from '../kit/secret.ts';
import { toAccountAnswer } from '../upstream/account-record.ts';
import { finish } from './finish.ts';
import { type Intent, readIntent, writeIntent } from './intent.ts';
import { codeOf, RotationError } from './rotation-error.ts';
import { prepareReset, type RotationDeps, type RotationRequest, type RotationSetup } from './setup.ts';
import { explain, settle } from './unfinished.ts';

export interface RotateDeps extends RotationDeps {
  /** Asks whoever runs this. */
  confirm(question: string): Promise<boolean>;
  /** Runs `work` so that no signal that can be caught ends it. */
  uninterrupted<T>(work: () => Promise<T>): Promise<T>;
  /** Prints a line. */
  say(line: string): void;
}

/** Bytes of disk that are taken before anything is sent. An answer has some 1,000. */
const RESERVED = 64 * 1024;

/**
 * Resets an account's token, and loses nothing: whatever happens at whatever time, the answer is on the disk as soon as it
 * is here, and what is unfinished is finished by the next run. Throws RotationError with what happened and what to do.
 */
export async function rotateToken(loaded: LoadedConfig, request: RotationRequest, deps: RotateDeps): Promise<void> {
  const say = (lines: readonly string[]) => {
    for (const line of lines) deps.say(line);
  };
  const closing = createClosing();
  try {
    const setup = prepareReset(loaded, request, deps, closing);
    const unfinished = readIntent(setup.intentFile);
    if (unfinished) {
      const { isOver, lines } = await settle(unfinished, setup);
      say(lines);
      if (isOver) return;
    }
    const intent = await agree(setup, deps);
    say(await deps.uninterrupted(() => reset(intent, setup)));
  } finally {
    await closing.close();
  }
}

/** Proves that the answer can be stored. */
function probe(record: string): void {
  try {
    reserveFile(record, RESERVED).discard();
  } catch (error) {
    const code = codeOf(error);
    throw new RotationError(
      code === 'EEXIST'
        ? `${record} is there already, and is never written over; nothing was sent`
        : `${record} would have to take the new credentials, and can't be written (${code}); nothing was sent. --out FILE names another`,
    );
  }
}

/** Makes sure that what comes can be put in place, or that somebody else has been told to. */
function rehearse({ token, password, out }: RotationSetup): void {
  for (const place of [token, password].filter(({ file }) => file)) {
    try {
      place.rehearse();
    } catch (error) {
      if (out === undefined) throw error;
    }
  }
}

/** Tries whatever can be tried without sending anything, then asks. */
async function agree(setup: RotationSetup, { clock, confirm }: RotateDeps): Promise<Intent> {
  const { account, token, managementUrl } = setup;
  const now = clock.now();
  const record = setup.newRecord(now);
  probe(record);
  rehearse(setup);
  const present = fingerprint(token.present);
  const worked = (await setup.check(token.present)) !== 'refused';
  const fate = worked ? 'stops working at once' : 'is refused by the service even now';
  const question = `Reset the token of ${account} at ${managementUrl}? The present one, ${present} in ${token.name}, ${fate}.`;
  if (!(await confirm(question))) throw new RotationError('Not confirmed; nothing was sent.');
  return { startedAt: new Date(now).toISOString(), account, token: present, worked, record };
}

/** Stores bytes as they come. Should the disk fail after all, they go to another place in the end. */
function createKeeper(record: string) {
  const chunks: Buffer[] = [];
  const file = reserveFile(record, RESERVED);
  let failure: unknown;
  const attempt = (work: () => void) => {
    try {
      if (failure === undefined) work();
    } catch (error) {
      failure = error;
    }
  };
  return {
    keep(bytes: Buffer) {
      chunks.push(bytes);
      attempt(() => file.append(bytes));
    },
    /** What came, and the file that it is in. */
    end(): { readonly bytes: Buffer; readonly record: string } {
      const bytes = Buffer.concat(chunks);
      attempt(() => file.complete());
      if (failure === undefined) return { bytes, record };
      failure = undefined;
      let other = record;
      attempt(() => {
        // A folder of its own, that no other user can enter: in the common one, another user may have put such a file.
        const path = join(mkdtempSync(join(tmpdir(), 'delivery-watch-')), basename(record));
        replaceFile(path, bytes);
        syncFolder(tmpdir());
        other = path;
      });
      return { bytes, record: other };
    },
  };
}

/** Writes down what is going to be done, and takes the room for the answer. */
function begin(intent: Intent, { intentFile }: RotationSetup): ReturnType<typeof createKeeper> {
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
  const answer = end.end === 'not_done' ? undefined : toAccountAnswer(bytes);
  if (answer && (end.end === 'answered' || (await setup.check(answer.token)) !== 'refused')) {
    return finish(answer, intent, setup);
  }
  throw await explain(end, bytes, intent, setup);
}
