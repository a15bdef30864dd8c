import type { DataFrame, FieldConfigSource, GrafanaTheme2, TimeRange } from '@grafana/data';
import type { Panel } from '../model.ts';
import type { Replace } from '../variables.ts';

export interface Mark {
  /** Start (ms since the Unix epoch). */
  readonly at: number;
  /** End of a period (ms since the Unix epoch); undefined for a point in time. */
  readonly until?: number;
  readonly color: string;
}

export interface VizProps {
  readonly panel: Panel;
  readonly frames: DataFrame[];
  readonly fieldConfig: FieldConfigSource;
  readonly width: number;
  readonly height: number;
  readonly theme: GrafanaTheme2;
  readonly timeRange: TimeRange;
  readonly replace: Replace;
  readonly marks: readonly Mark[];
}
