import { TimeSeries } from '@grafana/ui';
import { Marks } from './marks.tsx';
import type { VizProps } from './props.ts';

export function TimeSeriesViz({ panel, frames, width, height, timeRange, marks }: VizProps) {
  return (
    <TimeSeries
      frames={frames}
      width={width}
      height={height}
      timeRange={timeRange}
      timeZone="utc"
      legend={panel.options.legend}
      options={panel.options}
    >
      {config => <Marks config={config} marks={marks} />}
    </TimeSeries>
  );
}
