import { z } from 'zod';
import { redacted } from '../kit/redaction.ts';
import { bounded, readBody } from './body.ts';

/** Bytes of an error response that are read, packed and unpacked; characters of its text that are shown. */
const LARGEST_ERROR = 16 * 1024;
const MAX_SHOWN = 200;

const ErrorBody = z.object({ error: z.string() });

/**
 * Reads the documented body of an error response, `{error}`, for logs and pages. Returns undefined if the body is
 * something else, is too long or does not arrive in time. Never throws, because the status decides the outcome. Without
 * `secrets` the body is only read to its end, which makes the connection reusable.
 */
export async function readErrorText(
  packed: AsyncIterable<Buffer>,
  encoding: string,
  what: string,
  secrets: (() => readonly string[]) | undefined,
): Promise<string | undefined> {
  const bounds = { what, largest: LARGEST_ERROR };
  try {
    const body = await readBody(bounded(packed, bounds), encoding, bounds);
    const { error = '' } = ErrorBody.safeParse(body).data ?? {};
    return (secrets && redacted(error, secrets(), MAX_SHOWN)) || undefined;
  } catch {
    return undefined;
  }
}
