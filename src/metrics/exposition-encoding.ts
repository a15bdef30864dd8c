import type { Format } from '../model/exposition.ts';
import type { Charset, Fragment } from './exposition-body.ts';
import type { Family, Sample } from './family.ts';

/** Samples of a family that stand below one header. */
export interface Part {
  /** That of all or most samples is the name of the family. */
  readonly key: string;
  readonly family: Family;
}

/** How families and samples are written down: in lines, for both text formats, or in messages. */
export interface Encoding {
  /** Of the strings that the others give. */
  readonly charset: Charset;
  parts(family: Family): readonly Part[];
  /** What stands before the samples of a family. */
  header(family: Family, format: Format): string;
  /** The same, or nothing where there are no samples. */
  framed(header: string, samples: readonly Fragment[]): string;
  /** Makes text of those of a family's samples that are of the part. It remembers what it has written. */
  samples(part: Part, account: string | undefined, format: Format): (samples: readonly Sample[]) => string;
  /** Whether these samples read otherwise in OpenMetrics than in text. */
  hasExemplars(family: Family, samples: readonly Sample[]): boolean;
  end(format: Format): string;
}
