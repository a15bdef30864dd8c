import type { Format } from '../model/exposition.ts';
import type { Charset, Fragment } from './exposition-body.ts';
import type { Family, Sample } from './family.ts';

export interface Part {
  /** That of all or most samples is the name of the family. */
  readonly key: string;
  readonly family: Family;
}

/** How families and samples are written down: in lines, for both text formats, or in messages. */
export interface Encoding {
  readonly charset: Charset;
  parts(family: Family): readonly Part[];
  header(family: Family, format: Format): string;
  /** The same, or nothing where there are no samples. */
  framed(header: string, samples: readonly Fragment[]): string;
  /** Makes text of those of a family's samples that are of the part. It remembers what it has written. */
  samples(part: Part, account: string | undefined, format: Format): (samples: readonly Sample[]) => string;
  /** Whether these samples read otherwise in OpenMetrics than in text. */
  hasExemplars(family: Family, samples: readonly Sample[]): boolean;
  end(format: Format): string;
}
