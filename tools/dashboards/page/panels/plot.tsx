import type { GrafanaTheme2, TimeRange } from '@grafana/data';
import { AxisPlacement, ScaleDirection, ScaleOrientation } from '@grafana/schema';
import { UPlotChart, UPlotConfigBuilder } from '@grafana/ui';
import { useMemo } from 'react';
import type uPlot from 'uplot';
import { Marks } from './marks.tsx';
import type { Mark } from './props.ts';

interface PlotProps {
  readonly width: number;
  readonly height: number;
  readonly theme: GrafanaTheme2;
  readonly timeRange: TimeRange;
  readonly marks: readonly Mark[];
  /** Row labels in ascending order. */
  readonly labels: readonly string[];
  readonly draw: (plot: uPlot) => void;
}

/** A plot with time on the x-axis and labelled rows on the y-axis, for heatmaps and state timelines. */
export function RowsPlot({ width, height, theme, timeRange, labels, draw, marks }: PlotProps) {
  const config = useMemo(() => {
    const builder = new UPlotConfigBuilder('utc');
    builder.addScale({
      scaleKey: 'x',
      isTime: true,
      orientation: ScaleOrientation.Horizontal,
      direction: ScaleDirection.Right,
      range: () => [timeRange.from.valueOf(), timeRange.to.valueOf()],
    });
    builder.addScale({
      scaleKey: 'y',
      isTime: false,
      orientation: ScaleOrientation.Vertical,
      direction: ScaleDirection.Up,
      range: () => [-0.5, labels.length - 0.5],
    });
    builder.addAxis({ scaleKey: 'x', isTime: true, placement: AxisPlacement.Bottom, timeZone: 'utc', theme });
    const every = Math.ceil((labels.length * 10) / (height - 30));
    const splits = labels.map((_, index) => index).filter(index => index % every === 0);
    builder.addAxis({
      scaleKey: 'y',
      placement: AxisPlacement.Left,
      theme,
      grid: { show: false },
      splits: () => splits,
      values: () => splits.map(index => labels[index] ?? ''),
    });
    builder.addSeries({
      scaleKey: 'y',
      theme,
      pathBuilder: () => null,
      pointsBuilder: () => undefined,
    } as never);
    builder.setPrepData(() => []);
    builder.addHook('drawAxes', draw);
    return builder;
  }, [height, theme, timeRange, labels, draw]);
  const data = useMemo<uPlot.AlignedData>(
    () => [
      [timeRange.from.valueOf(), timeRange.to.valueOf()],
      [0, 0],
    ],
    [timeRange],
  );
  return (
    <UPlotChart config={config} data={data} width={width} height={height}>
      <Marks config={config} marks={marks} />
    </UPlotChart>
  );
}
