import { type Field, formattedValueToString, getFieldDisplayName } from '@grafana/data';
import { LegendDisplayMode } from '@grafana/schema';
import { VizLegend } from '@grafana/ui';
import { useCallback, useMemo } from 'react';
import type uPlot from 'uplot';
import { warn } from '../model.ts';
import { RowsPlot } from './plot.tsx';
import type { VizProps } from './props.ts';

interface Stretch {
  readonly from: number;
  readonly to: number;
  readonly text: string;
  readonly color: string;
}

/** Returns the periods of a series. Merges consecutive equal values if `merge`. */
function stretchesOf(time: Field, field: Field, end: number, merge: boolean): Stretch[] {
  const step = time.config.interval ?? 0;
  const stretches: Stretch[] = [];
  for (const [index, at] of time.values.entries()) {
    const value = field.values[index];
    if (value === null || value === undefined || Number.isNaN(value)) continue;
    const display = field.display?.(value);
    const text = display ? formattedValueToString(display) : String(value);
    const color = display?.color ?? 'gray';
    const to = Math.min(end, at + step);
    const last = stretches.at(-1);
    if (merge && last?.text === text && last.color === color && at <= last.to)
      stretches[stretches.length - 1] = { ...last, to };
    else stretches.push({ from: at, to, text, color });
  }
  return stretches;
}

const LEGEND = 28;

export function StateTimelineViz(props: VizProps) {
  const { panel, frames, height, theme, timeRange } = props;
  const { options } = panel;
  const rows = useMemo(
    () =>
      frames
        .flatMap(frame => {
          const [time, ...fields] = frame.fields;
          if (!time) return [];
          return fields.map(field => ({
            name: getFieldDisplayName(field, frame, frames),
            opacity: (field.config.custom?.fillOpacity ?? 70) / 100,
            stretches: stretchesOf(time, field, timeRange.to.valueOf(), options.mergeValues !== false),
          }));
        })
        .slice(0, options.perPage || 20),
    [frames, options, timeRange],
  );
  if (options.perPage && frames.length > options.perPage)
    warn(`${panel.title}: shows the first ${options.perPage} rows`);
  const upwards = useMemo(() => rows.toReversed(), [rows]);
  const labels = useMemo(() => upwards.map(({ name }) => name), [upwards]);
  const draw = useCallback(
    ({ ctx, valToPos }: uPlot) => {
      ctx.save();
      ctx.font = `${12 * devicePixelRatio}px Inter`;
      ctx.textBaseline = 'middle';
      const half = (options.rowHeight ?? 0.9) / 2;
      for (const [row, { stretches, opacity }] of upwards.entries()) {
        const [top, bottom] = [valToPos(row + half, 'y', true), valToPos(row - half, 'y', true)];
        for (const { from, to, text, color } of stretches) {
          const [left, right] = [
            Math.max(valToPos(from, 'x', true), valToPos(timeRange.from.valueOf(), 'x', true)),
            valToPos(to, 'x', true),
          ];
          ctx.globalAlpha = opacity;
          ctx.fillStyle = color;
          ctx.fillRect(left, top, right - left, bottom - top);
          ctx.globalAlpha = 1;
          const isWide = ctx.measureText(text).width + 12 < right - left;
          if (options.showValue === 'never' || (options.showValue === 'auto' && !isWide)) continue;
          ctx.fillStyle = theme.colors.text.primary;
          ctx.textAlign = options.alignValue ?? 'left';
          const at = { left: left + 6, center: (left + right) / 2, right: right - 6 }[ctx.textAlign as 'left'];
          ctx.fillText(text, at, (top + bottom) / 2);
        }
      }
      ctx.restore();
    },
    [upwards, options, theme, timeRange],
  );
  const items = [
    ...new Map(rows.flatMap(({ stretches }) => stretches.map(({ text, color }) => [text, color]))).entries(),
  ].map(([label, color]) => ({ label: label as string, color: color as string, yAxis: 1 }));
  const hasLegend = options.legend?.showLegend && options.legend.displayMode !== LegendDisplayMode.Hidden;
  return (
    <div>
      <RowsPlot {...props} labels={labels} draw={draw} height={height - (hasLegend ? LEGEND : 0)} />
      {hasLegend && <VizLegend items={items} displayMode={LegendDisplayMode.List} placement="bottom" readonly />}
    </div>
  );
}
