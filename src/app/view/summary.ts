import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { Envelope, SUMMARY_VERSION } from '../../http/api/summary.ts';

export { Candidates, Summary, Whole } from '../../http/api/summary.ts';

/** A schema, as far as it is needed here. */
export interface Schema<T> {
  /** Throws where the value is none of it. */
  parse(value: unknown): T;
}

/** Keys of the rows. */
export const KEYS = { summary: 'view/summary', whole: 'view/account', candidates: 'view/candidates' } as const;

/** What a replica has told of an account. */
export interface Told<T> {
  /** When it was so, milliseconds since the Unix epoch by the database's clock. */
  readonly at: number;
  /** Id of the replica that told it. */
  readonly by: string;
  readonly body: T;
}

/** Characters from which on a row is compressed. */
const LARGE = 1000;
/** Bytes that no row has, however well it was compressed. */
const MOST = 8_000_000;

export function encodeTold({ at, by, body }: Told<unknown>): string {
  const text = JSON.stringify(body);
  const what = text.length < LARGE ? { body } : { deflated: deflateRawSync(text, { level: 9 }).toString('base64') };
  return JSON.stringify({ version: SUMMARY_VERSION, at, by, ...what });
}

/** Undefined: damaged, or written by another version, whose words these are not. */
export function decodeTold<T>(schema: Schema<T>, text: string): Told<T> | undefined {
  try {
    const { at, by, body, deflated } = Envelope.parse(JSON.parse(text));
    const inflate = (packed: string) =>
      JSON.parse(inflateRawSync(Buffer.from(packed, 'base64'), { maxOutputLength: MOST }).toString());
    return { at, by, body: schema.parse(deflated === undefined ? body : inflate(deflated)) };
  } catch {
    return undefined;
  }
}
