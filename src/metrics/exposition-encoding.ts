import type { Format } from '../model/exposition.ts';
import type { Charset, Fragment } from './exposition-body.ts';
import type { Family, Sample } from './family.ts';

/** How families and samples are written down: in lines, for both text formats, or in messages. */
export interface Encoding {
  /** Of the strings that the others give. */
  readonly charset: Charset;
  /** What stands before the samples of a family. */
  header(family: Family, format: Format): string;
  /** The same, or nothing where there are no samples. */
  framed(header: string, samples: readonly Fragment[]): string;
  /** Makes text of a family's samples. It remembers what it has written. */
  samples(family: Family, account: string | undefined, format: Format): (samples: readonly Sample[]) => string;
  /** Whether these samples read otherwise in OpenMetrics than in text. */
  hasExemplars(family: Family, samples: readonly Sample[]): boolean;
  /** What stands after everything. */
  end(format: Format): string;
}
