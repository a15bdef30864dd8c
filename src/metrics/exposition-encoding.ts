import type { Format } from '../model/exposition.ts';
import type { Charset, Fragment } from './exposition-body.ts';
import type { Family, Sample } from './family.ts';

export interface Part {
  /** Usually the name of the family. */
  readonly key: string;
  readonly family: Family;
}

/** Encodes families and samples as lines. */
export interface Encoding {
  readonly charset: Charset;
  parts(family: Family): readonly Part[];
  header(family: Family, format: Format): string;
  /** Returns the header with its frame, or an empty string if there are no samples. */
  framed(header: string, samples: readonly Fragment[]): string;
  /** Returns a function that encodes the samples belonging to the part, without repeated series. */
  samples(part: Part, account: string | undefined, format: Format): (samples: readonly Sample[]) => string;
  /** Whether these samples differ between OpenMetrics and text. */
  hasExemplars(family: Family, samples: readonly Sample[]): boolean;
  end(format: Format): string;
}
